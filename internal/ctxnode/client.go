package ctxnode

import "context"

// A *Client is the context of a request whose end means that the client left. A
// node started directly in it says so in its cause.
type Client struct{ context.Context }
