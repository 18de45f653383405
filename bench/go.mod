module github.com/curfew-go/curfew/bench

go 1.26.0
