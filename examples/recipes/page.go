package recipes

import (
	"context"
	"fmt"
	"net/http"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// A page needs the order. It can do without the ads, for which it waits no longer
// than 150 ms.
func (shop *Shop) page(w http.ResponseWriter, r *http.Request) {
	err := scope.Run(r.Context(), "page", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
		order := scope.Fork(s, "order", func(ctx context.Context) (string, error) { return shop.Order(ctx, r.PathValue("id")) })
		ads := scope.Fork(s.Optional(budget.Within(150*time.Millisecond)), "ads", shop.Ads)
		if err := s.Wait(); err != nil {
			return err
		}
		curfewhttp.Incomplete(w, s.Missing())
		_, err := fmt.Fprintf(w, "%s\n%s\n", order.Value(), ads.Or("no ads"))
		return err
	})
	if err != nil {
		curfewhttp.Error(w, r, err)
	}
}
