// Package recipes holds the code of docs/recipes.md: how curfew stands beside routers,
// proxies, streams and long work.
package recipes
