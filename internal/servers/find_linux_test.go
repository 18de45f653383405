package servers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	places := debianPlaces
	debianPlaces = []string{filepath.Join(t.TempDir(), "*")}
	defer func() { debianPlaces = places }()
	leftOut := filepath.Join(t.TempDir(), "left-out")

	for _, c := range []struct {
		mode, skipped, fatal, noted string
	}{
		{"", "servers: left out, MariaDB is not installed", "", "MariaDB\t" + t.Name() + "\n"},
		{"auto", "servers: left out, MariaDB is not installed", "", "MariaDB\t" + t.Name() + "\n"},
		{"skip", "servers: left out, MariaDB is not installed", "", "MariaDB\t" + t.Name() + "\n"},
		{"required", "", "MariaDB is required", ""},
		{"requird", "", "CURFEW_SERVERS=requird is not one of", ""},
	} {
		t.Run("CURFEW_SERVERS="+c.mode, func(t *testing.T) {
			t.Setenv("CURFEW_SERVERS", c.mode)
			t.Setenv("CURFEW_LEFT_OUT", leftOut)
			if err := os.RemoveAll(leftOut); err != nil {
				t.Fatal(err)
			}
			fake := &fakeTB{TB: t, name: strings.Split(t.Name(), "/")[0]}
			fake.run(func() { Start(fake, MariaDB) })
			if !strings.HasPrefix(fake.skipped, c.skipped) || c.skipped == "" && fake.skipped != "" {
				t.Errorf("skipped with %q, want %q", fake.skipped, c.skipped)
			}
			if !strings.Contains(fake.fatal, c.fatal) || c.fatal == "" && fake.fatal != "" {
				t.Errorf("failed with %q, want %q", fake.fatal, c.fatal)
			}
			noted, err := os.ReadFile(leftOut)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if string(noted) != c.noted {
				t.Errorf("noted %q, want %q", noted, c.noted)
			}
		})
	}
}

func TestNewestVersionIsFound(t *testing.T) {
	base := t.TempDir()
	for _, version := range []string{"9", "14", "15"} {
		bin := filepath.Join(base, version, "bin")
		if err := os.MkdirAll(bin, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, "postgres"), nil, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	places := debianPlaces
	debianPlaces = []string{filepath.Join(base, "*", "bin")}
	defer func() { debianPlaces = places }()
	if got, want := findInDebian("postgres"), filepath.Join(base, "15", "bin", "postgres"); got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestPortsDoNotRepeat(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] || port < firstPort || port >= firstPort+portCount {
			t.Errorf("port %d was given before or is out of range", port)
		}
		seen[port] = true
	}
}
