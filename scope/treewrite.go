package scope

import (
	"bufio"
	"encoding/json"
	"fmt"
)

// A treeWriter writes lines as they are found.
type treeWriter interface {
	scope(w *bufio.Writer, l *scopeLine, depth int, first bool)
	tasks(w *bufio.Writer) // what follows are the tasks of the scope
	task(w *bufio.Writer, l *taskLine, depth int, first bool)
	inTask(w *bufio.Writer) // what follows are scopes opened by the task
	inBody(w *bufio.Writer) // what follows are scopes opened by the body
	end(w *bufio.Writer)    // of the task or the scope
}

// A textWriter writes a line each, indented by depth.
type textWriter struct{}

func (textWriter) scope(w *bufio.Writer, l *scopeLine, depth int, _ bool) {
	fmt.Fprintf(w, "%*sscope %s: %s", 2*depth, "", l.Name, l.State)
	if l.Cleanup != "" {
		fmt.Fprintf(w, " (%s)", l.Cleanup)
	}
	writeEnd(w, l.Age, l.Left, l.Limit, l.Cause, l.Overdue)
	fmt.Fprintf(w, ", tasks: %d live of %d", l.Live, l.Started)
	if l.Skipped > 0 {
		fmt.Fprintf(w, ", %d skipped", l.Skipped)
	}
	if l.Orphans > 0 {
		fmt.Fprintf(w, ", %d orphans", l.Orphans)
	}
	if l.Slots > 0 {
		fmt.Fprintf(w, ", slots: %d of %d taken", len(l.Holding), l.Slots)
		if len(l.Waiting) > 0 {
			fmt.Fprintf(w, ", waiting: %s", summary(l.Waiting))
		}
	}
	w.WriteByte('\n')
}

func (textWriter) task(w *bufio.Writer, l *taskLine, depth int, _ bool) {
	what := "task"
	switch {
	case l.Service:
		what = "service"
	case l.Attempt:
		what = "attempt"
	}
	fmt.Fprintf(w, "%*s%s %s: %s", 2*depth, "", what, l.Name, l.State)
	writeEnd(w, l.Age, l.Left, l.Limit, l.Cause, l.Overdue)
	w.WriteByte('\n')
}

func writeEnd(w *bufio.Writer, age millis, left *millis, limit, cause string, overdue millis) {
	fmt.Fprintf(w, ", age %v", age)
	if left != nil {
		fmt.Fprintf(w, ", %v left", *left)
		if limit != "" {
			fmt.Fprintf(w, " (%s)", limit)
		}
	}
	if cause != "" {
		fmt.Fprintf(w, ", ended %v ago: %s", overdue, cause)
	}
}

func (textWriter) tasks(*bufio.Writer) {}

func (textWriter) inTask(*bufio.Writer) {}

func (textWriter) inBody(*bufio.Writer) {}

func (textWriter) end(*bufio.Writer) {}

// A jsonWriter writes objects within objects.
type jsonWriter struct{}

func (jsonWriter) scope(w *bufio.Writer, l *scopeLine, _ int, first bool) { openObject(w, l, first) }

func (jsonWriter) task(w *bufio.Writer, l *taskLine, _ int, first bool) { openObject(w, l, first) }

// openObject writes v without its closing brace, so that more fields can follow.
func openObject(w *bufio.Writer, v any, first bool) {
	if !first {
		w.WriteByte(',')
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // lines have no field that could fail
	}
	w.Write(text[:len(text)-1])
}

func (jsonWriter) tasks(w *bufio.Writer) { w.WriteString(`,"tasks":[`) }

func (jsonWriter) inTask(w *bufio.Writer) { w.WriteString(`,"scopes":[`) }

func (jsonWriter) inBody(w *bufio.Writer) { w.WriteString(`],"scopes":[`) }

func (jsonWriter) end(w *bufio.Writer) { w.WriteString(`]}`) }
