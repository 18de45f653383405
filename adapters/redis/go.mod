module github.com/curfew-go/curfew/adapters/redis

go 1.26.0
