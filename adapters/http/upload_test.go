package curfewhttp_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
)

// TestAnUploadLeavesNoFileBehind: net/http removes the files of the request that
// it made, and knows nothing of copies.
func TestAnUploadLeavesNoFileBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	onDisk := 0
	s := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, r.ParseMultipartForm(1<<10))
		onDisk = len(tempFiles(t))
	}), curfewhttp.Config{Max: patience}), false)

	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "large")
	require.NoError(t, err)
	part.Write(make([]byte, 1<<20))
	require.NoError(t, w.Close())
	resp, err := http.Post(s.URL, w.FormDataContentType(), &form)
	require.NoError(t, err)
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	s.Close() // waits for the server to be done with the request
	assert.Equal(t, 1, onDisk, "the upload was large enough for a file")
	assert.Empty(t, tempFiles(t))
}

func tempFiles(t *testing.T) []string {
	files, err := filepath.Glob(filepath.Join(os.TempDir(), "multipart-*"))
	require.NoError(t, err)
	return files
}

type idleCounter struct {
	http.RoundTripper
	closed int
}

func (c *idleCounter) CloseIdleConnections() { c.closed++ }

func TestAClientClosesIdleConnectionsThroughTheTransport(t *testing.T) {
	base := &idleCounter{RoundTripper: http.DefaultTransport}
	(&http.Client{Transport: &curfewhttp.Transport{Base: base}}).CloseIdleConnections()
	assert.Equal(t, 1, base.closed)
	assert.NotPanics(t, func() {
		(&http.Client{Transport: &curfewhttp.Transport{Base: struct{ http.RoundTripper }{}}}).CloseIdleConnections()
	}, "a base that cannot")
}
