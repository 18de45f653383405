package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/checkpoint"
)

const (
	pageRows  = 100
	blockSize = 4 << 10
)

// collect writes the orders into a file, page by page. It goes on behind the last page that is noted:
// what the file has beyond is of one that was not.
func collect(ctx context.Context, w *worker, at job) (err error) {
	file, err := os.OpenFile(w.files.part(at.id), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if is, err := file.Stat(); err != nil {
		return err
	} else if is.Size() < at.bytes { // somebody has removed it
		at.lastID, at.bytes = 0, 0
	}
	if err := file.Truncate(at.bytes); err != nil {
		return err
	}
	if _, err := file.Seek(at.bytes, io.SeekStart); err != nil {
		return err
	}
	for {
		page, last, err := w.jobs.page(ctx, at.lastID)
		if err != nil {
			return err
		}
		if page == nil {
			return nil
		}
		if _, err := file.Write(page); err != nil {
			return err
		}
		if err := file.Sync(); err != nil { // the note must never be ahead of the file
			return err
		}
		w.step("collect: written")
		at.lastID, at.bytes = last, at.bytes+int64(len(page))
		if err := w.jobs.progress(ctx, at); err != nil {
			return err
		}
		w.step("collect: noted")
		if err := wait(ctx, w.pace); err != nil {
			return err
		}
	}
}

// page returns the orders behind the one with the id after, as lines, and the id of the last one; nil
// when there are no more.
func (j jobs) page(ctx context.Context, after int64) (lines []byte, last int64, err error) {
	rows, err := j.db.QueryContext(ctx, `SELECT id, customer, cents FROM orders WHERE id > $1 ORDER BY id LIMIT $2`, after, pageRows)
	if err != nil {
		return nil, 0, curfewsql.Error(ctx, err)
	}
	defer rows.Close()
	var out bytes.Buffer
	for rows.Next() {
		var customer string
		var cents int64
		if err := rows.Scan(&last, &customer, &cents); err != nil {
			return nil, 0, err
		}
		fmt.Fprintf(&out, "%d,%s,%d\n", last, customer, cents)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, curfewsql.Error(ctx, err)
	}
	return out.Bytes(), last, nil
}

// pack compresses the file, from its beginning each time. It computes more than it waits, so it has
// a checkpoint at each block.
func pack(ctx context.Context, w *worker, at job) (err error) {
	in, err := os.Open(w.files.part(at.id))
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(w.files.packed(at.id))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	z := gzip.NewWriter(out)
	blocks := checkpoint.Reader(ctx, io.LimitReader(in, at.bytes))
	for buf := make([]byte, blockSize); ; {
		n, err := blocks.Read(buf)
		if err != nil && err != io.EOF {
			return err
		}
		if _, err := z.Write(buf[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			break
		}
		w.step("pack: block")
		if err := wait(ctx, w.pace); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	defer w.step("pack: done")
	return out.Sync()
}

// publish puts the file where it can be had, tells, and leaves nothing temporary behind. Each step may
// have been done before, by a process that was killed behind it.
func publish(ctx context.Context, w *worker, at job) error {
	w.step("publish: begun")
	if err := w.files.publish(at.id); err != nil {
		return err
	}
	w.step("publish: moved")
	if err := w.files.removeTemporary(at.id); err != nil {
		return err
	}
	w.step("publish: removed")
	if err := w.jobs.publish(ctx, at.id); err != nil {
		return err
	}
	w.step("publish: told")
	return nil
}
