package balance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/serviceconfig"
)

// Config is a service config. It is not changed once it has been parsed.
type Config struct {
	serviceconfig.Config // grpc-go's marker

	Text     string // its JSON
	Policy   *Policy
	Health   *string  // the service whose health is checked; nil: none
	Selector Selector // decides for each call; nil: none
	Calls    any      // what calls use of it, the owner's
}

// Selector decides for each call of a Config's. The calls use it until Retire has returned.
type Selector interface{ Retire() }

func retire(s Selector) {
	if s != nil {
		s.Retire()
	}
}

// Policy is a balancer and its settings.
type Policy struct {
	Builder  balancer.Builder
	Settings serviceconfig.LoadBalancingConfig
}

// Strictness says how an unknown field is treated, and an unknown balancer in loadBalancingPolicy.
type Strictness uint8

const (
	Strict  Strictness = iota // it is an error: the caller's own config
	Lenient                   // it is logged: a resolver's config, made for clients of all versions
)

// parsed returns the config that a resolver got from ParseServiceConfig. A resolver may also have one of grpc-go's own
// parser. Its JSON is parsed again, because the exported fields are only the settings of methods.
func (act *activity) parsed(c serviceconfig.Config) (*Config, error) {
	switch c := c.(type) {
	case *Config:
		return c, nil
	//lint:ignore SA1019 grpc-go's parser still returns it
	case *grpc.ServiceConfig:
		if text, ok := grpcgo.ServiceConfigJSON(c); ok {
			return act.ch.owner.Parse(text)
		}
	}
	return nil, fmt.Errorf("a service config of type %T was not made by ParseServiceConfig", c)
}

// ParsePolicy returns the first registered balancer of list, which is a service config's loadBalancingConfig, or that of the older field
// loadBalancingPolicy, or pick_first; nil is a field that is missing. As in grpc-go, a resolver's older field may name a balancer that this
// program has not: many zones still say grpclb.
func ParsePolicy(list *json.RawMessage, older *string, how Strictness) (*Policy, error) {
	if list == nil {
		name := "pick_first"
		if older != nil {
			name = *older
		}
		if balancer.Get(name) == nil {
			name = strings.ToLower(name) // names of grpc-go were of any case, and ROUND_ROBIN is the specification's
		}
		if balancer.Get(name) == nil {
			err := fmt.Errorf("no balancer is registered as %q", name)
			if how == Strict {
				return nil, err
			}
			logger.Warningf("service config of the resolver: %v: pick_first is used", err)
			name = "pick_first"
		}
		return onePolicy(name, json.RawMessage("{}"))
	}
	var entries []map[string]json.RawMessage
	if err := json.Unmarshal(*list, &entries); err != nil {
		return nil, fmt.Errorf("loadBalancingConfig: %w", err)
	}
	names := make([]string, 0, len(entries))
	for i, entry := range entries {
		if len(entry) != 1 {
			return nil, fmt.Errorf("loadBalancingConfig: entry %d has %d balancers and needs one", i, len(entry))
		}
		for name, config := range entry {
			names = append(names, name)
			if p, err := onePolicy(name, config); p != nil || err != nil {
				return p, err
			}
		}
	}
	return nil, fmt.Errorf("loadBalancingConfig: none of the balancers %q is registered", names)
}

// onePolicy parses a balancer's settings; nil when there is no such balancer.
func onePolicy(name string, config json.RawMessage) (*Policy, error) {
	if name == "rls_experimental" {
		return nil, fmt.Errorf("balancer %q is not supported: it reports metrics through grpc-go's own client", name)
	}
	b := balancer.Get(name)
	if b == nil {
		return nil, nil
	}
	p := &Policy{Builder: b}
	parser, ok := b.(balancer.ConfigParser)
	if !ok {
		if c := bytes.TrimSpace(config); len(c) > 0 && !bytes.Equal(c, []byte("null")) && strings.Trim(string(c), "{} \t\r\n") != "" {
			return nil, fmt.Errorf("balancer %q takes no settings and was given %s", name, config)
		}
		return p, nil
	}
	var err error
	if p.Settings, err = parser.ParseConfig(config); err != nil {
		return nil, fmt.Errorf("settings of balancer %q: %w", name, err)
	}
	return p, nil
}
