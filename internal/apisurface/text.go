package apisurface

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// Text returns the exported surface of pkg. The first line names the package,
// the others are sorted, one for each exported thing:
//
//	const Blue Colour = 3
//	field Point.X int
//	func Parse(text string) (Colour, error)
//	method (*Pen) Draw(p Point) error
//	type Colour uint8
//	var ErrDry error
//
// Methods and fields that reach the surface through an embedded type are
// listed when that type is not exported, for then no other line tells of them.
func Text(pkg *types.Package) string {
	w := writer{pkg: pkg}
	for _, name := range pkg.Scope().Names() {
		if obj := pkg.Scope().Lookup(name); obj.Exported() {
			w.object(obj)
		}
	}
	slices.Sort(w.lines)
	w.lines = slices.Compact(w.lines)
	header := fmt.Sprintf("package %s // import %q", pkg.Name(), pkg.Path())
	return strings.Join(append([]string{header}, w.lines...), "\n") + "\n"
}

type writer struct {
	pkg   *types.Package
	lines []string
}

func (w *writer) line(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

// spell writes a type as a user of several packages would read it: foreign
// names with their package's name, our own bare.
func (w *writer) spell(t types.Type) string {
	return types.TypeString(t, w.qualify)
}

func (w *writer) qualify(other *types.Package) string {
	if other == w.pkg {
		return ""
	}
	return other.Name()
}

// signature spells a function's type without the leading "func".
func (w *writer) signature(t types.Type) string {
	return strings.TrimPrefix(w.spell(t), "func")
}

func (w *writer) object(obj types.Object) {
	switch obj := obj.(type) {
	case *types.Const:
		w.line("const %s %s = %s", obj.Name(), w.spell(obj.Type()), obj.Val().ExactString())
	case *types.Var:
		w.line("var %s %s", obj.Name(), w.spell(obj.Type()))
	case *types.Func:
		w.line("func %s%s", obj.Name(), w.signature(obj.Type()))
	case *types.TypeName:
		w.typeName(obj)
	}
}

func (w *writer) typeName(obj *types.TypeName) {
	named, ok := obj.Type().(*types.Named)
	if !ok || obj.IsAlias() {
		w.line("type %s = %s", obj.Name(), w.spell(types.Unalias(obj.Type())))
		return
	}
	name := obj.Name() + w.typeParams(named.TypeParams())
	switch under := named.Underlying().(type) {
	case *types.Struct:
		w.line("type %s struct%s", name, hiddenFields(under))
		w.fields(obj.Name(), under)
		w.methods(named)
	case *types.Interface:
		w.line("type %s interface%s", name, w.interfaceTerms(under))
		for m := range under.Methods() {
			if m.Exported() {
				w.line("method (%s) %s%s", obj.Name(), m.Name(), w.signature(m.Type()))
			}
		}
	default:
		w.line("type %s %s", name, w.spell(under))
		w.methods(named)
	}
}

func (w *writer) typeParams(list *types.TypeParamList) string {
	var out []string
	for p := range list.TypeParams() {
		out = append(out, p.Obj().Name()+" "+w.spell(p.Constraint()))
	}
	if out == nil {
		return ""
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// hiddenFields marks a struct that cannot be written as a literal with all its
// fields, so that adding the first such field shows as a change.
func hiddenFields(s *types.Struct) string {
	for f := range s.Fields() {
		if !f.Exported() {
			return " // has unexported fields"
		}
	}
	return ""
}

func (w *writer) interfaceTerms(i *types.Interface) string {
	var out []string
	for t := range i.EmbeddedTypes() {
		if _, isInterface := t.Underlying().(*types.Interface); !isInterface {
			out = append(out, w.spell(t))
		}
	}
	text := ""
	if out != nil {
		text = " { " + strings.Join(out, "; ") + " }"
	}
	for m := range i.Methods() {
		if !m.Exported() {
			return text + " // has unexported methods"
		}
	}
	return text
}

// fields lists a struct's exported fields and, through embedded structs that
// are not exported themselves, those that are promoted from there.
func (w *writer) fields(owner string, s *types.Struct) {
	for i := range s.NumFields() {
		f := s.Field(i)
		switch {
		case f.Exported():
			embedded := ""
			if f.Embedded() {
				embedded = " // embedded"
			}
			tag := ""
			if s.Tag(i) != "" {
				tag = " `" + s.Tag(i) + "`"
			}
			w.line("field %s.%s %s%s%s", owner, f.Name(), w.spell(f.Type()), tag, embedded)
		case f.Embedded():
			if inner, ok := deref(f.Type()).Underlying().(*types.Struct); ok {
				w.fields(owner, inner)
			}
		}
	}
}

func (w *writer) methods(named *types.Named) {
	byValue := types.NewMethodSet(named)
	for sel := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		m := sel.Obj()
		if !m.Exported() || !toldHere(named, sel.Index()) {
			continue
		}
		receiver := named.Obj().Name()
		if byValue.Lookup(m.Pkg(), m.Name()) == nil {
			receiver = "*" + receiver
		}
		if params := named.TypeParams(); params.Len() > 0 {
			var names []string
			for p := range params.TypeParams() {
				names = append(names, p.Obj().Name())
			}
			receiver += "[" + strings.Join(names, ", ") + "]"
		}
		w.line("method (%s) %s%s", receiver, m.Name(), w.signature(sel.Type()))
	}
}

// toldHere reports whether the method at the end of index is the named type's
// own or comes through embedded fields the first of which is not exported.
func toldHere(named *types.Named, index []int) bool {
	if len(index) == 1 {
		return true
	}
	s, ok := named.Underlying().(*types.Struct)
	return ok && !s.Field(index[0]).Exported()
}

func deref(t types.Type) types.Type {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}
