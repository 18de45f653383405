package myshop

import (
	"context"
	"database/sql"
)

// An Item is a row of items.
type Item struct {
	ID    int64
	Name  string
	Cents int64
	Note  sql.NullString
}

const addItem = `-- name: AddItem :execlastid
INSERT INTO items (name, cents, note) VALUES (?, ?, ?)
`

// AddItemParams are the arguments of AddItem.
type AddItemParams struct {
	Name  string
	Cents int64
	Note  sql.NullString
}

// AddItem adds an item and returns its id.
func (q *Queries) AddItem(ctx context.Context, arg AddItemParams) (int64, error) {
	result, err := q.exec(ctx, q.addItemStmt, addItem, arg.Name, arg.Cents, arg.Note)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

const getItem = `-- name: GetItem :one
SELECT id, name, cents, note FROM items WHERE id = ?
`

// GetItem returns one item.
func (q *Queries) GetItem(ctx context.Context, id int64) (Item, error) {
	row := q.queryRow(ctx, q.getItemStmt, getItem, id)
	var i Item
	err := row.Scan(&i.ID, &i.Name, &i.Cents, &i.Note)
	return i, err
}

const listItems = `-- name: ListItems :many
SELECT id, name, cents, note FROM items WHERE cents < ? ORDER BY id
`

// ListItems returns the items below a price.
func (q *Queries) ListItems(ctx context.Context, cents int64) ([]Item, error) {
	rows, err := q.query(ctx, q.listItemsStmt, listItems, cents)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var items []Item
	for rows.Next() {
		var i Item
		if err := rows.Scan(&i.ID, &i.Name, &i.Cents, &i.Note); err != nil {
			return nil, err
		}
		items = append(items, i)
	}
	if err := rows.Close(); err != nil {
		return nil, err
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return items, nil
}

const renameItem = `-- name: RenameItem :execrows
UPDATE items SET name = ? WHERE id = ?
`

// RenameItemParams are the arguments of RenameItem.
type RenameItemParams struct {
	Name string
	ID   int64
}

// RenameItem renames an item and returns how many there were.
func (q *Queries) RenameItem(ctx context.Context, arg RenameItemParams) (int64, error) {
	result, err := q.exec(ctx, q.renameItemStmt, renameItem, arg.Name, arg.ID)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

const cross = `-- name: Cross :one
SELECT count(*) FROM items a, items b, items c, items d, items e WHERE a.cents + b.cents + c.cents + d.cents + e.cents = ?
`

// Cross counts for hours.
func (q *Queries) Cross(ctx context.Context, cents int64) (int64, error) {
	row := q.queryRow(ctx, q.crossStmt, cross, cents)
	var count int64
	err := row.Scan(&count)
	return count, err
}
