package curfewredis

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/curfew-go/curfew/retrybudget"
)

// A Config says where things are in Redis. The zero Config works.
type Config struct {
	// Prefix begins every key; default "curfew". Fleets that share a server and
	// not a budget have one each. It must not hold a brace: those mark the part
	// of a key that decides where in a cluster it is.
	Prefix string

	// MaxMembers is how many members one target has at most, which bounds the
	// memory it takes; another one gets an error and goes on by itself. Whoever
	// was quiet for ten minutes makes room. Default 65,536; negative panics.
	MaxMembers int
}

const (
	defaultPrefix     = "curfew"
	defaultMaxMembers = 65_536
)

// settle fills the defaults in, for the function named by who.
func (c Config) settle(who string) Config {
	if strings.ContainsAny(c.Prefix, "{}") {
		panic(fmt.Sprintf("curfewredis: %s: brace in Prefix %q", who, c.Prefix))
	}
	if c.MaxMembers < 0 {
		panic(fmt.Sprintf("curfewredis: %s: negative MaxMembers %d", who, c.MaxMembers))
	}
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if c.MaxMembers == 0 {
		c.MaxMembers = defaultMaxMembers
	}
	return c
}

// version is that of what is stored and of what it means, and part of each key:
// members with another one do not touch it, and are another fleet. While both run,
// in a rollout, there are two floors.
const version = "2"

// key returns what the keys of a name begin with. The name is hashed: it may be
// long, hold anything, and be nobody else's business.
func (c Config) key(kind, name string) string {
	sum := sha256.Sum256([]byte(name))
	return c.Prefix + ":" + version + ":" + kind + ":{" + hex.EncodeToString(sum[:16]) + "}"
}

//go:embed sync.lua
var source string

var script = redis.NewScript(source)

// A Pool is a retrybudget.Pool in Redis. Its rules are those of pooltest.Memory.
// All targets may share one, and all Budgets of a process should share one
// client with it. It may be used by many goroutines. There is nothing to close:
// the client is its maker's.
type Pool struct {
	client redis.UniversalClient
	config Config
	script *redis.Script
	links  [links]link
}

// New returns a Pool that uses client, which must be a *redis.Client, also one of
// redis.NewFailoverClient, or a *redis.ClusterClient, with ContextTimeoutEnabled
// and without retries of its own: MaxRetries is -1. Otherwise the error is a
// *ClientError. New does not talk to the server, which may be down, and neither
// New nor the Pool ever closes the client or opens another one.
func New(client redis.UniversalClient, c Config) (*Pool, error) {
	c = c.settle("New")
	if err := check(client); err != nil {
		return nil, err
	}
	return &Pool{client: client, config: c, script: script}, nil
}

// Sync is part of retrybudget.Pool: one call of the server. Whatever goes wrong,
// from a refused connection to an answer that makes no sense, is an error. A call
// with less than 100 ms to its deadline, as those of a Budget have, does not make a
// connection itself when another one ran out of time: that is then done beside the
// calls, by a goroutine that ends by itself within 1.2 s or when the client is
// closed.
func (p *Pool) Sync(ctx context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
	if err := r.Check(); err != nil {
		return retrybudget.PoolGrant{}, err
	}
	leave := 0
	if r.Leave {
		leave = 1
	}
	key := p.config.key("pool", r.Target)
	// EVALSHA, and EVAL when the server does not know the script: after a restart
	// that is one call of a member, and two round trips.
	var reply any
	err := p.link(key).call(ctx, p.connect(key), func(ctx context.Context) (err error) {
		reply, err = p.script.Run(ctx, p.client, []string{key, key + ":seen"},
			r.Member, r.Seq, r.Epoch, r.Donate, r.Expires, r.Return, r.Lent,
			r.Want, r.PerSecond, r.Burst, r.Hold.Microseconds(), leave, p.config.MaxMembers).Result()
		return err
	})
	if err != nil {
		return retrybudget.PoolGrant{}, fmt.Errorf("curfewredis: sync: %w", err)
	}
	g, err := read(r, reply)
	if err == nil {
		err = g.Check(r)
	}
	if err != nil {
		return retrybudget.PoolGrant{}, err
	}
	return g, nil
}

// read reads the reply of the script: who asked, and twelve decimal numbers, as
// text, since a script's numbers would be cut to 64 bits without a word. Members of
// one process share connections, and their Seqs are alike, so a reply that came
// twice would be taken for that of another one without the name.
func read(r retrybudget.PoolRequest, reply any) (g retrybudget.PoolGrant, err error) {
	refuse := func(what any) error {
		return fmt.Errorf("curfewredis: sync: Redis answered %.100q", fmt.Sprint(what))
	}
	all, ok := reply.([]any)
	if !ok || len(all) != 13 {
		return g, refuse(reply)
	}
	if all[0] != fmt.Sprint(r.Member, " ", r.Seq) {
		return g, refuse(all[0])
	}
	var n [12]int64
	for i, v := range all[1:] {
		text, ok := v.(string)
		if !ok {
			return g, refuse(v)
		}
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil || n[i] < 0 {
			return g, refuse(text)
		}
	}
	const hour = int64(time.Hour / time.Microsecond)
	if n[3] > hour || n[8] > 1<<31-1 || n[9] > hour {
		return g, refuse(reply)
	}
	return retrybudget.PoolGrant{
		Seq: r.Seq, Epoch: n[0], Now: n[1],
		Granted: n[2], Life: time.Duration(n[3]) * time.Microsecond, Floor: n[4], Lent: n[5], Expires: n[6],
		Balance: n[7], Members: int(n[8]), Hold: time.Duration(n[9]) * time.Microsecond, Accrued: n[10], Expired: n[11],
	}, nil
}
