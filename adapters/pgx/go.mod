module github.com/curfew-go/curfew/adapters/pgx

go 1.26.0
