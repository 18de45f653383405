package curfewhttp_test

import (
	"net/http"
	"net/http/httptest"
)

// nobody is a ResponseWriter that costs nothing.
type nobody struct{ header http.Header }

func (w *nobody) Header() http.Header         { return w.header }
func (w *nobody) Write(p []byte) (int, error) { return len(p), nil }
func (w *nobody) WriteHeader(int)             {}

var httpRequest = httptest.NewRequest(http.MethodGet, "/", nil)
