package orms

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/curfew-go/curfew/adapters/sql/internal/orms/myshop"
	"github.com/curfew-go/curfew/adapters/sql/internal/orms/pgshop"
)

// An item is a row, whatever read it.
type item struct {
	ID    int64          `db:"id"`
	Name  string         `db:"name"`
	Cents int64          `db:"cents"`
	Note  sql.NullString `db:"note"`
}

func (item) TableName() string { return "items" }

// A kit is what stands on top of the *sql.DB, used as its own documentation says.
type kit interface {
	add(ctx context.Context, i item) (id int64, err error)
	get(ctx context.Context, id int64) (item, error)
	below(ctx context.Context, cents int64) ([]item, error)
	rename(ctx context.Context, id int64, name string) (rows int64, err error)
	cross(ctx context.Context) error // counts for hours
	// inTx commits when f returns nil.
	inTx(ctx context.Context, f func(kit) error) error
}

// kits are made anew for each test. Those that prepare need the table to be there.
var kits = map[string]func(t *testing.T, e *engine, db *sql.DB) kit{
	"sqlc":            func(t *testing.T, e *engine, db *sql.DB) kit { return newSQLC(t, e, db, false) },
	"sqlc, prepared":  func(t *testing.T, e *engine, db *sql.DB) kit { return newSQLC(t, e, db, true) },
	"sqlx":            func(_ *testing.T, e *engine, db *sql.DB) kit { return newSQLX(e, db) },
	"GORM":            func(t *testing.T, e *engine, db *sql.DB) kit { return newGORM(t, e, db, false) },
	"GORM, preparing": func(t *testing.T, e *engine, db *sql.DB) kit { return newGORM(t, e, db, true) },
}

func newSQLC(t *testing.T, e *engine, db *sql.DB, prepare bool) kit {
	if e.sqlx == "mysql" {
		q := myshop.New(db)
		if prepare {
			var err error
			q, err = myshop.Prepare(t.Context(), db)
			require.NoError(t, err)
			t.Cleanup(func() { q.Close() })
		}
		return mysqlc{db, q}
	}
	q := pgshop.New(db)
	if prepare {
		var err error
		q, err = pgshop.Prepare(t.Context(), db)
		require.NoError(t, err)
		t.Cleanup(func() { q.Close() })
	}
	return pgsqlc{db, q}
}

type pgsqlc struct {
	db *sql.DB
	q  *pgshop.Queries
}

func (k pgsqlc) add(ctx context.Context, i item) (int64, error) {
	return k.q.AddItem(ctx, pgshop.AddItemParams{Name: i.Name, Cents: i.Cents, Note: i.Note})
}

func (k pgsqlc) get(ctx context.Context, id int64) (item, error) {
	i, err := k.q.GetItem(ctx, id)
	return item(i), err
}

func (k pgsqlc) below(ctx context.Context, cents int64) (all []item, err error) {
	found, err := k.q.ListItems(ctx, cents)
	for _, i := range found {
		all = append(all, item(i))
	}
	return all, err
}

func (k pgsqlc) rename(ctx context.Context, id int64, name string) (int64, error) {
	return k.q.RenameItem(ctx, pgshop.RenameItemParams{Name: name, ID: id})
}

func (k pgsqlc) cross(ctx context.Context) error {
	_, err := k.q.Cross(ctx, -1)
	return err
}

func (k pgsqlc) inTx(ctx context.Context, f func(kit) error) error {
	return inTx(ctx, k.db, func(tx *sql.Tx) error { return f(pgsqlc{k.db, k.q.WithTx(tx)}) })
}

type mysqlc struct {
	db *sql.DB
	q  *myshop.Queries
}

func (k mysqlc) add(ctx context.Context, i item) (int64, error) {
	return k.q.AddItem(ctx, myshop.AddItemParams{Name: i.Name, Cents: i.Cents, Note: i.Note})
}

func (k mysqlc) get(ctx context.Context, id int64) (item, error) {
	i, err := k.q.GetItem(ctx, id)
	return item(i), err
}

func (k mysqlc) below(ctx context.Context, cents int64) (all []item, err error) {
	found, err := k.q.ListItems(ctx, cents)
	for _, i := range found {
		all = append(all, item(i))
	}
	return all, err
}

func (k mysqlc) rename(ctx context.Context, id int64, name string) (int64, error) {
	return k.q.RenameItem(ctx, myshop.RenameItemParams{Name: name, ID: id})
}

func (k mysqlc) cross(ctx context.Context) error {
	_, err := k.q.Cross(ctx, -1)
	return err
}

func (k mysqlc) inTx(ctx context.Context, f func(kit) error) error {
	return inTx(ctx, k.db, func(tx *sql.Tx) error { return f(mysqlc{k.db, k.q.WithTx(tx)}) })
}

// inTx is what stands around transactions in code over sqlc.
func inTx(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func newSQLX(e *engine, db *sql.DB) kit {
	x := sqlx.NewDb(db, e.sqlx)
	return sqlxKit{x, x, e.returns}
}

type sqlxKit struct {
	db *sqlx.DB
	on interface {
		sqlx.ExtContext
		PrepareNamedContext(ctx context.Context, query string) (*sqlx.NamedStmt, error)
		GetContext(ctx context.Context, dest any, query string, args ...any) error
		SelectContext(ctx context.Context, dest any, query string, args ...any) error
	}
	returns bool
}

func (k sqlxKit) add(ctx context.Context, i item) (id int64, err error) {
	const insert = "INSERT INTO items (name, cents, note) VALUES (:name, :cents, :note)"
	if k.returns {
		stmt, err := k.on.PrepareNamedContext(ctx, insert+" RETURNING id")
		if err != nil {
			return 0, err
		}
		defer stmt.Close()
		err = stmt.GetContext(ctx, &id, i)
		return id, err
	}
	result, err := sqlx.NamedExecContext(ctx, k.on, insert, i)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func (k sqlxKit) get(ctx context.Context, id int64) (i item, err error) {
	err = k.on.GetContext(ctx, &i, k.on.Rebind("SELECT * FROM items WHERE id = ?"), id)
	return i, err
}

func (k sqlxKit) below(ctx context.Context, cents int64) (all []item, err error) {
	err = k.on.SelectContext(ctx, &all, k.on.Rebind("SELECT * FROM items WHERE cents < ? ORDER BY id"), cents)
	return all, err
}

func (k sqlxKit) rename(ctx context.Context, id int64, name string) (int64, error) {
	result, err := k.on.ExecContext(ctx, k.on.Rebind("UPDATE items SET name = ? WHERE id = ?"), name, id)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (k sqlxKit) cross(ctx context.Context) error {
	var n int64
	return k.on.GetContext(ctx, &n, k.on.Rebind(cross), -1)
}

func (k sqlxKit) inTx(ctx context.Context, f func(kit) error) error {
	tx, err := k.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(sqlxKit{k.db, tx, k.returns}); err != nil {
		return err
	}
	return tx.Commit()
}

const cross = "SELECT count(*) FROM items a, items b, items c, items d, items e WHERE a.cents + b.cents + c.cents + d.cents + e.cents = ?"

func newGORM(t *testing.T, e *engine, db *sql.DB, prepare bool) kit {
	g, err := gorm.Open(e.gorm(db), &gorm.Config{PrepareStmt: prepare, Logger: logger.Discard})
	require.NoError(t, err)
	return gormKit{g}
}

type gormKit struct{ db *gorm.DB }

func (k gormKit) add(ctx context.Context, i item) (int64, error) {
	err := k.db.WithContext(ctx).Create(&i).Error
	return i.ID, err
}

func (k gormKit) get(ctx context.Context, id int64) (i item, err error) {
	err = k.db.WithContext(ctx).First(&i, id).Error
	if err == gorm.ErrRecordNotFound {
		err = sql.ErrNoRows
	}
	return i, err
}

func (k gormKit) below(ctx context.Context, cents int64) (all []item, err error) {
	err = k.db.WithContext(ctx).Where("cents < ?", cents).Order("id").Find(&all).Error
	return all, err
}

func (k gormKit) rename(ctx context.Context, id int64, name string) (int64, error) {
	result := k.db.WithContext(ctx).Model(&item{}).Where("id = ?", id).Update("name", name)
	return result.RowsAffected, result.Error
}

func (k gormKit) cross(ctx context.Context) error {
	var n int64
	return k.db.WithContext(ctx).Raw(cross, -1).Scan(&n).Error
}

func (k gormKit) inTx(ctx context.Context, f func(kit) error) error {
	return k.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return f(gormKit{tx}) })
}
