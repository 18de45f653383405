package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// files are the two folders of a service: one for what is not whole yet, one for what can be had.
type files struct{ dir string }

func (f files) temporary() string       { return filepath.Join(f.dir, "temporary") }
func (f files) part(id string) string   { return filepath.Join(f.temporary(), id+".csv") }
func (f files) packed(id string) string { return filepath.Join(f.temporary(), id+".csv.gz") }
func (f files) whole(id string) string  { return filepath.Join(f.dir, "published", id+".csv.gz") }

func (f files) setUp() error {
	return errors.Join(os.MkdirAll(f.temporary(), 0o755), os.MkdirAll(filepath.Dir(f.whole("")), 0o755))
}

// publish moves the packed file to where it can be had. It may have been moved already.
func (f files) publish(id string) error {
	err := os.Rename(f.packed(id), f.whole(id))
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(f.whole(id))
	}
	return err
}

func (f files) removeTemporary(id string) error {
	return errors.Join(remove(f.part(id)), remove(f.packed(id)))
}

// remove removes what may not be there.
func remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// list lists the temporary files.
func (f files) list() (names []string, err error) {
	entries, err := os.ReadDir(f.temporary())
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// sweep removes the temporary files that belong to no unfinished job, such as one whose cleanup failed.
func (f files) sweep(unfinished []string) error {
	names, err := f.list()
	for _, name := range names {
		if id, _, _ := strings.Cut(name, "."); !slices.Contains(unfinished, id) {
			err = errors.Join(err, remove(filepath.Join(f.temporary(), name)))
		}
	}
	return err
}
