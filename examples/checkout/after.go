package main

import (
	"context"
	"net/http"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
	"github.com/curfew-go/curfew/scope"
)

// Mode curfew: the same five services on one budget. The gateway sets it, because that is where the
// promise to the user is made; nobody below has a timeout of its own. Each service reads what is left,
// refuses what can no longer be done, and passes on a little less.

// startAfter starts the services on f and returns the gateway's URL.
func startAfter(f *fleet, room *stockroom) (gatewayURL string, err error) {
	return startPooled(f, room, nil)
}

// startInFleet is startAfter with clients that share one pool, as the instances of real services
// would. It lies in memory, since all of them are in this process; between processes it is one of
// curfewredis, as examples/fleet has it.
func startInFleet(f *fleet, room *stockroom) (gatewayURL string, err error) {
	return startPooled(f, room, &pooltest.Memory{})
}

func startPooled(f *fleet, room *stockroom, pool retrybudget.Pool) (gatewayURL string, err error) {
	route := routeConfig(room.pace)
	handle := func(pattern string, h http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(pattern, curfewhttp.Handler(h, route))
		return mux
	}
	client := func(name, url string, attempts int) *peer {
		p := newPeer(name, url, f.transport(), attempts, room.pace, pool)
		f.credits = append(f.credits, p.credit)
		return p
	}

	w := warehouse{room: room, useful: route.Useful}
	warehouseURL := f.serve(room.meter.watch(handle("GET /stock/{sku}", answer(w.stock))))
	p := payment{service: room.pace.real(paymentService)}
	paymentURL := f.serve(handle("POST /authorizations/{id}", answer(p.authorize)))

	// One layer tries again: the clients next to the work. Everybody above asks once.
	i := inventory{warehouse: client("warehouse", warehouseURL, callAttempts)}
	inventoryURL := f.serve(handle("GET /available/{sku}", answer(i.available)))
	o := order{
		threads:   newPool(orderThreads),
		inventory: client("inventory", inventoryURL, 1),
		payment:   client("payment", paymentURL, callAttempts),
	}
	orderURL := f.serve(handle("POST /orders/{sku}", answer(o.place)))
	g := gateway{order: client("order", orderURL, 1)}
	gatewayURL = f.serve(handle("POST /checkout/{sku}", answer(g.checkout)))
	return gatewayURL, f.err
}

// routeConfig is the same for every route: what the edge gives is the most that anybody gets, and
// inside it only tightens.
func routeConfig(p pace) curfewhttp.Config {
	return curfewhttp.Config{Max: p.real(edgeBudget - edgeReserve), Useful: p.real(usefulMinimum)}
}

func hopSlush(p pace) wire.Slush {
	return wire.Slush{Share: slushShare, Floor: p.real(slushFloor), Cap: p.real(slushCap)}
}

type gateway struct{ order *peer }

func (g gateway) checkout(ctx context.Context, r *http.Request) (receipt, error) {
	return call[receipt](ctx, g.order, "POST", "/orders/"+r.PathValue("sku"))
}

type order struct {
	threads            *pool
	inventory, payment *peer
}

// place asks inventory and payment at the same time, both out of the same budget. When one fails the
// other is cancelled at once; an authorization that nobody captures lapses by itself.
func (o order) place(ctx context.Context, r *http.Request) (receipt, error) {
	leave, err := o.threads.enter(ctx)
	if err != nil {
		return receipt{}, err
	}
	defer leave()
	return scope.RunValue(ctx, "order", budget.Inherited(), func(ctx context.Context, s *scope.Scope) (receipt, error) {
		reserved := scope.Fork(s, "inventory", func(ctx context.Context) (stock, error) {
			return call[stock](ctx, o.inventory, "GET", "/available/"+r.PathValue("sku"))
		})
		authorized := scope.Fork(s, "payment", func(ctx context.Context) (authorization, error) {
			return call[authorization](ctx, o.payment, "POST", "/authorizations/"+requestID(ctx))
		})
		if err := s.Wait(); err != nil {
			return receipt{}, err
		}
		return receipt{Stock: reserved.Value(), Authorization: authorized.Value()}, nil
	})
}

type inventory struct{ warehouse *peer }

func (i inventory) available(ctx context.Context, r *http.Request) (stock, error) {
	return call[stock](ctx, i.warehouse, "GET", "/stock/"+r.PathValue("sku"))
}

type warehouse struct {
	room   *stockroom
	useful time.Duration
}

// stock asks for the budget again once a worker is free: the request had time when it arrived, but may
// have spent it in the queue. No work is done for one that is too late, and the read itself stops at
// the deadline.
func (w warehouse) stock(ctx context.Context, r *http.Request) (stock, error) {
	leave, err := w.room.workers.enter(ctx)
	if err != nil {
		return stock{}, err
	}
	defer leave()
	if err := budget.Require(ctx, w.useful); err != nil {
		return stock{}, err
	}
	sku := r.PathValue("sku")
	onHand, err := w.room.read(ctx, sku)
	return stock{SKU: sku, OnHand: onHand}, err
}

type payment struct{ service time.Duration }

func (p payment) authorize(ctx context.Context, r *http.Request) (authorization, error) {
	select {
	case <-time.After(p.service):
		return authorization{ID: r.PathValue("id")}, nil
	case <-ctx.Done():
		return authorization{}, context.Cause(ctx)
	}
}
