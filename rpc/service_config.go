package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/serviceconfig"
)

// ErrServiceConfig is wrapped by every error in a service config, the caller's or a resolver's.
var ErrServiceConfig = errors.New("rpc: bad service config")

// serviceConfig is the part of a service config that a client supports.
type serviceConfig struct {
	serviceconfig.Config // grpc-go's marker

	text     string // its JSON
	policy   *policy
	methods  map[string]*methodConfig // by "/service/method", "/service/" or ""
	throttle *throttle
	health   *string   // the service whose health is checked; nil: none
	selector *selector // decides for each call; nil: none
}

// policy is a balancer and its settings.
type policy struct {
	builder balancer.Builder
	config  serviceconfig.LoadBalancingConfig
}

// methodConfig holds the settings of some methods.
type methodConfig struct {
	waitForReady *bool
	timeout      *time.Duration // nil: none
	maxSend      int            // -1: none
	maxRecv      int            // -1: none
	retry        *RetryPolicy
	hedging      *HedgingPolicy // at most one of the two
}

// find returns the settings of a method; nil when there are none.
func (c *serviceConfig) find(method string) *methodConfig {
	if len(c.methods) == 0 {
		return nil
	}
	if m := c.methods[method]; m != nil {
		return m
	}
	if i := strings.LastIndexByte(method, '/'); i >= 0 {
		if m := c.methods[method[:i+1]]; m != nil {
			return m
		}
	}
	return c.methods[""]
}

// strictness says how an unknown field is treated, and an unknown balancer in loadBalancingPolicy.
type strictness uint8

const (
	strict  strictness = iota // it is an error: the caller's own config
	lenient                   // it is logged: a resolver's config, made for clients of all versions
)

// The JSON of a service config, as grpc's service_config.proto maps to it.
type (
	jsonConfig struct {
		Balancers  *json.RawMessage `json:"loadBalancingConfig"`
		Balancer   *string          `json:"loadBalancingPolicy"`
		Methods    []jsonMethods    `json:"methodConfig"`
		Throttling *jsonThrottling  `json:"retryThrottling"`
		Health     *jsonHealth      `json:"healthCheckConfig"`
	}
	jsonMethods struct {
		Name         []jsonName    `json:"name"`
		WaitForReady *bool         `json:"waitForReady"`
		Timeout      *jsonDuration `json:"timeout"`
		MaxRequest   *int64        `json:"maxRequestMessageBytes"`
		MaxResponse  *int64        `json:"maxResponseMessageBytes"`
		Retry        *jsonRetry    `json:"retryPolicy"`
		Hedging      *jsonHedging  `json:"hedgingPolicy"`
	}
	jsonName struct {
		Service string `json:"service"`
		Method  string `json:"method"`
	}
	jsonRetry struct {
		MaxAttempts    int          `json:"maxAttempts"`
		InitialBackoff jsonDuration `json:"initialBackoff"`
		MaxBackoff     jsonDuration `json:"maxBackoff"`
		Multiplier     float64      `json:"backoffMultiplier"`
		Codes          []codes.Code `json:"retryableStatusCodes"`
	}
	jsonHedging struct {
		MaxAttempts int          `json:"maxAttempts"`
		Delay       jsonDuration `json:"hedgingDelay"`
		NonFatal    []codes.Code `json:"nonFatalStatusCodes"`
	}
	jsonThrottling struct {
		MaxTokens  float64 `json:"maxTokens"`
		TokenRatio float64 `json:"tokenRatio"`
	}
	jsonHealth struct {
		ServiceName *string `json:"serviceName"`
	}
	jsonDuration time.Duration
)

// UnmarshalJSON parses seconds, with a fraction of at most nine digits, followed by "s" (protobuf's JSON
// mapping of Duration). As in grpc-go the digits on one side of the point may be missing: ".01s", "1.s".
func (d *jsonDuration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	number, ok := strings.CutSuffix(s, "s")
	whole, fraction, _ := strings.Cut(number, ".")
	if !ok || !digits(whole+fraction) || len(fraction) > 9 {
		return fmt.Errorf("malformed duration %q", s)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("duration %q is out of range", s)
	}
	*d = jsonDuration(v)
	return nil
}

// digits reports whether s is one or more decimal digits.
func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// defaultServiceConfig is that of WithDefaultServiceConfig, or an empty one.
func defaultServiceConfig(o *dialOptions) (*serviceConfig, error) {
	if o.serviceConfig == nil {
		return parseServiceConfig("{}", strict)
	}
	return parseServiceConfig(*o.serviceConfig, strict)
}

func parseServiceConfig(text string, how strictness) (*serviceConfig, error) {
	out := &serviceConfig{text: text, methods: map[string]*methodConfig{}}
	var js jsonConfig
	err := decodeConfig(text, &js, how)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrServiceConfig, err)
	}
	if out.policy, err = js.policy(how); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrServiceConfig, err)
	}
	for _, m := range js.Methods {
		if err := out.addMethods(m); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrServiceConfig, err)
		}
	}
	if t := js.Throttling; t != nil {
		if t.MaxTokens <= 0 || t.MaxTokens > 1000 || t.TokenRatio <= 0 {
			return nil, fmt.Errorf("%w: retryThrottling %+v is out of range", ErrServiceConfig, *t)
		}
		out.throttle = newThrottle(t.MaxTokens, t.TokenRatio)
	}
	if js.Health != nil {
		name := ""
		if js.Health.ServiceName != nil {
			name = *js.Health.ServiceName
		}
		out.health = &name
	}
	return out, nil
}

// parsedServiceConfig returns the config that a resolver got from ParseServiceConfig. A resolver may also have one of grpc-go's own
// parser. Its JSON is parsed again, because the exported fields are only the settings of methods.
func parsedServiceConfig(c serviceconfig.Config) (*serviceConfig, error) {
	switch c := c.(type) {
	case *serviceConfig:
		return c, nil
	//lint:ignore SA1019 grpc-go's parser still returns it
	case *grpc.ServiceConfig:
		if text, ok := grpcgo.ServiceConfigJSON(c); ok {
			return parseServiceConfig(text, lenient)
		}
	}
	return nil, fmt.Errorf("a service config of type %T was not made by ParseServiceConfig", c)
}

// decodeConfig parses one JSON object, which nothing may follow.
func decodeConfig(text string, js *jsonConfig, how strictness) error {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(js)
	if err != nil && how == lenient && strings.Contains(err.Error(), "unknown field") {
		logger.Warningf("service config of the resolver: %v: it is not used", err)
		*js = jsonConfig{}
		dec = json.NewDecoder(strings.NewReader(text))
		err = dec.Decode(js)
	}
	if err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("data follows the JSON object")
	}
	return nil
}

// policy is the first registered balancer of the list, or that of the older field, or pick_first. As in grpc-go, a resolver's older field
// may name a balancer that this program has not: many zones still say grpclb.
func (js *jsonConfig) policy(how strictness) (*policy, error) {
	if js.Balancers == nil {
		name := "pick_first"
		if js.Balancer != nil {
			name = *js.Balancer
		}
		if balancer.Get(name) == nil {
			name = strings.ToLower(name) // names of grpc-go were of any case, and ROUND_ROBIN is the specification's
		}
		if balancer.Get(name) == nil {
			err := fmt.Errorf("no balancer is registered as %q", name)
			if how == strict {
				return nil, err
			}
			logger.Warningf("service config of the resolver: %v: pick_first is used", err)
			name = "pick_first"
		}
		return onePolicy(name, json.RawMessage("{}"))
	}
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(*js.Balancers, &list); err != nil {
		return nil, fmt.Errorf("loadBalancingConfig: %w", err)
	}
	names := make([]string, 0, len(list))
	for i, entry := range list {
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
func onePolicy(name string, config json.RawMessage) (*policy, error) {
	if name == "rls_experimental" {
		return nil, fmt.Errorf("balancer %q is not supported: it reports metrics through grpc-go's own client", name)
	}
	b := balancer.Get(name)
	if b == nil {
		return nil, nil
	}
	p := &policy{builder: b}
	parser, ok := b.(balancer.ConfigParser)
	if !ok {
		if c := bytes.TrimSpace(config); len(c) > 0 && !bytes.Equal(c, []byte("null")) && strings.Trim(string(c), "{} \t\r\n") != "" {
			return nil, fmt.Errorf("balancer %q takes no settings and was given %s", name, config)
		}
		return p, nil
	}
	var err error
	if p.config, err = parser.ParseConfig(config); err != nil {
		return nil, fmt.Errorf("settings of balancer %q: %w", name, err)
	}
	return p, nil
}

func (c *serviceConfig) addMethods(m jsonMethods) error {
	mc := &methodConfig{waitForReady: m.WaitForReady, timeout: (*time.Duration)(m.Timeout), maxSend: -1, maxRecv: -1}
	var err error
	if mc.maxSend, err = messageLimit("maxRequestMessageBytes", m.MaxRequest); err != nil {
		return err
	}
	if mc.maxRecv, err = messageLimit("maxResponseMessageBytes", m.MaxResponse); err != nil {
		return err
	}
	if r := m.Retry; r != nil {
		p := RetryPolicy{MaxAttempts: r.MaxAttempts, InitialBackoff: time.Duration(r.InitialBackoff),
			MaxBackoff: time.Duration(r.MaxBackoff), BackoffMultiplier: r.Multiplier, RetryableStatusCodes: r.Codes}
		if err := p.check(); err != nil {
			return err
		}
		mc.retry = &p
	}
	if h := m.Hedging; h != nil {
		if mc.retry != nil {
			return errors.New("a method has both a retryPolicy and a hedgingPolicy")
		}
		p := HedgingPolicy{MaxAttempts: h.MaxAttempts, HedgingDelay: time.Duration(h.Delay), NonFatalStatusCodes: h.NonFatal}
		if err := p.check(); err != nil {
			return err
		}
		mc.hedging = &p
	}
	for _, n := range m.Name {
		key := ""
		switch {
		case n.Service != "":
			key = "/" + n.Service + "/" + n.Method
		case n.Method != "":
			return errors.New("a name has a method without a service")
		}
		if c.methods[key] != nil {
			return fmt.Errorf("%q is named twice", key)
		}
		c.methods[key] = mc
	}
	return nil
}

func messageLimit(field string, n *int64) (int, error) {
	if n == nil {
		return -1, nil
	}
	if *n < 0 {
		return 0, fmt.Errorf("%s is %d", field, *n)
	}
	return int(min(*n, math.MaxInt32)), nil
}

// limit applies the limits on messages: each lowers what an option has set, and replaces a default, which for responses
// may be lower.
func (m *methodConfig) limit(ci *callInfo) {
	if m.maxSend >= 0 {
		ci.maxSend = min(ci.maxSend, m.maxSend) // the default is the highest limit that there is
	}
	if m.maxRecv >= 0 && (!ci.recvSet || m.maxRecv < ci.maxRecv) {
		ci.maxRecv = m.maxRecv
	}
}
