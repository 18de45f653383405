package budget_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

func causeText(behind error) string {
	text := (&budget.Cause{Kind: budget.SiblingFailed, Err: behind}).Error()
	return strings.TrimPrefix(text, "budget: sibling failed: ")
}

// The error behind a cause is often that of somebody else's call.
func TestNoSecretStandsInTheTextOfACause(t *testing.T) {
	for in, want := range map[string]string{
		`Get "https://ann:s3cret@shop.example/orders?token=s3cret#top": EOF`:              `Get "https://shop.example/orders": EOF`,
		`Get https://shop.example/orders?token=s3cret: EOF`:                               `Get https://shop.example/orders: EOF`,
		`Get "https://s3cret@shop.example:8443/a/b": EOF`:                                 `Get "https://shop.example:8443/a/b": EOF`,
		`Get "https://shop.example": EOF`:                                                 `Get "https://shop.example": EOF`,
		`Get "https://shop.example/@ann?s3cret"`:                                          `Get "https://shop.example/@ann"`,
		`Get "https://shop.example:443/@ann"`:                                             `Get "https://shop.example:443/@ann"`,
		`cannot parse "postgres://ann:s3/cret@db.example:5432/shop?sslmode=off": invalid`: `cannot parse "postgres://db.example:5432/shop": invalid`,
		`a http://a/?s3cret and b http://b/?s3cret.`:                                      `a http://a/ and b http://b/.`,
		`(see http://a?s3cret)`:                                                           `(see http://a)`,
		`dial ann:s3cret@tcp(127.0.0.1:3306)/shop: refused`:                               `dial tcp(127.0.0.1:3306)/shop: refused`,
		`dial ann:s3/c@ret@unix(/run/mysql.sock)/shop`:                                    `dial unix(/run/mysql.sock)/shop`,
		`host=db user=ann password=s3cret dbname=shop`:                                    `host=db user=ann password=... dbname=shop`,
		`host=db PASSWORD = 's3 cr\'et' dbname=shop`:                                      `host=db PASSWORD = ... dbname=shop`,
		`access_token=s3cret&a=1`:                                                         `access_token=...&a=1`,
		`parse "postgres://ann:s3 cret@db.example/shop": net/url: invalid userinfo`:       `parse "postgres://db.example/shop": net/url: invalid userinfo`,
		`parse "postgres://ann:s3\"cret@db.example/shop": net/url: invalid userinfo`:      `parse "postgres://db.example/shop": net/url: invalid userinfo`,
		`parse "postgres://ann:s3<cret@db.example/shop": net/url: invalid userinfo`:       `parse "postgres://db.example/shop": net/url: invalid userinfo`,
		`parse "https://ann:s3?cret@shop.example/x": invalid port ":s3" after host`:       `parse "https://...": invalid port "..." after host`,
		`parse "https://ann:s3": invalid port ":s3" after host`:                           `parse "https://...": invalid port "..." after host`,
		`dial postgres://ann:p@s3?cret@db.example/shop`:                                   `dial postgres://...`,
		`dial postgres://ann:s3 and more`:                                                 `dial postgres://... and more`,
		`dial postgres://ann:s3cret@a.example:5432,b.example:5432/shop`:                   `dial postgres://a.example:5432,b.example:5432/shop`,
		`Get "http://[::1]:8080/a?s3": EOF`:                                               `Get "http://[::1]:8080/a": EOF`,
		`dial ann:s3cret@tcp6([::1]:3306)/shop: refused`:                                  `dial tcp6([::1]:3306)/shop: refused`,
		`dial ann:s3cret@/shop`:                                                           `dial /shop`,
		`parse "//ann:s3cret@shop.example:80/a"`:                                          `parse "shop.example:80/a"`,
		`host=db password=s3\ cret user=ann`:                                              `host=db password=... user=ann`,
		`server=db;password={s3;cret};database=shop`:                                      `server=db;password=...;database=shop`,
		`password="s3 cret" pass=s3cret api_key=s3cret`:                                   `password=... pass=... api_key=...`,
		`{"user":"ann","password": "s3\"cret"}`:                                           `{"user":"ann","password": ...`,
		`wrong password: try again`:                                                       `wrong password: try again`,
		`no such order`:                                                                   `no such order`,
		`ann@shop.example is unknown, 1 != 2`:                                             `ann@shop.example is unknown, 1 != 2`,
		`expected ://, have ://`:                                                          `expected ://, have ://`,
	} {
		got := causeText(errors.New(in))
		assert.Equal(t, want, got)
		assert.NotContains(t, got, "s3")
	}
	assert.Equal(t, `stock: Get "http://a/b": EOF`, causeText(fmt.Errorf("stock: %w", &url.Error{Op: "Get", URL: "http://u:s3cret@a/b?s3cret", Err: io.EOF})))
	assert.NotContains(t, causeText(&budget.Cause{Err: &budget.Cause{Err: &url.Error{Op: "Get", URL: "http://a?s3cret", Err: io.EOF}}}), "s3cret")
}

// The whole error is still found behind the cause, by whoever may see it.
func TestASecretIsLeftOutOfTheTextAlone(t *testing.T) {
	failed := &url.Error{Op: "Get", URL: "http://a/b?s3cret", Err: io.EOF}
	_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
		s.Go("stock", func(context.Context) error { return failed })
		<-ctx.Done()
		cause := context.Cause(ctx)
		assert.NotContains(t, cause.Error(), "s3cret")
		var got *url.Error
		assert.ErrorAs(t, cause, &got)
		assert.Same(t, failed, got)
		return nil
	})
}

func FuzzCauseText(f *testing.F) {
	for _, s := range []string{"http://a:b@c/d?e#f", "x://", "://?@", "a@tcp(", "password='", "http://h:1/a@b", "http://a:b/c@d", `token = 'a\'b' x`, `token=''0`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := causeText(errors.New(s))
		if again := causeText(errors.New(got)); again != got {
			t.Fatalf("%q, %q, %q", s, got, again)
		}
		// Whatever stands behind it, a secret is out.
		if got := causeText(errors.New("http://ann:s3cret@shop.example/?s3cret " + s)); !strings.HasPrefix(got, "http://shop.example/ ") {
			t.Fatalf("%q", got)
		}
	})
}
