module github.com/curfew-go/curfew

go 1.26.0

require (
	github.com/sourcegraph/conc v0.3.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/time v0.16.0
)

require go.yaml.in/yaml/v3 v3.0.6 // indirect
