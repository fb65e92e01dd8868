package rpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

// ErrServiceConfig is wrapped by every error about a service config, which is
// the caller's fault.
var ErrServiceConfig = errors.New("rpc: bad service config")

// serviceConfig is what a client understands of a service config.
type serviceConfig struct {
	balance  balance
	methods  map[string]*methodConfig // by "/service/method", "/service/" or ""
	throttle *throttle
}

// methodConfig is the settings of some methods.
type methodConfig struct {
	waitForReady *bool
	timeout      time.Duration // 0: none
	maxSend      int           // -1: none
	maxRecv      int           // -1: none
	retry        *RetryPolicy
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

// The JSON of a service config, as grpc's service_config.proto maps to it.
type (
	jsonConfig struct {
		Balancers  []map[string]json.RawMessage `json:"loadBalancingConfig"`
		Balancer   string                       `json:"loadBalancingPolicy"`
		Methods    []jsonMethods                `json:"methodConfig"`
		Throttling *jsonThrottling              `json:"retryThrottling"`
	}
	jsonMethods struct {
		Name         []jsonName    `json:"name"`
		WaitForReady *bool         `json:"waitForReady"`
		Timeout      *jsonDuration `json:"timeout"`
		MaxRequest   *int          `json:"maxRequestMessageBytes"`
		MaxResponse  *int          `json:"maxResponseMessageBytes"`
		Retry        *jsonRetry    `json:"retryPolicy"`
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
	jsonThrottling struct {
		MaxTokens  float64 `json:"maxTokens"`
		TokenRatio float64 `json:"tokenRatio"`
	}
	jsonDuration time.Duration
)

// UnmarshalJSON reads seconds with an "s" behind.
func (d *jsonDuration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	if err != nil || !strings.HasSuffix(s, "s") || strings.ContainsAny(s, "mhnuµ") {
		return fmt.Errorf("malformed duration %q", s)
	}
	*d = jsonDuration(v)
	return nil
}

func parseServiceConfig(text string) (*serviceConfig, error) {
	out := &serviceConfig{methods: map[string]*methodConfig{}}
	if text == "" {
		return out, nil
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	var js jsonConfig
	if err := dec.Decode(&js); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrServiceConfig, err)
	}
	if err := out.setBalance(&js); err != nil {
		return nil, err
	}
	for _, m := range js.Methods {
		if err := out.addMethods(m); err != nil {
			return nil, err
		}
	}
	if t := js.Throttling; t != nil {
		if t.MaxTokens <= 0 || t.MaxTokens > 1000 || t.TokenRatio <= 0 {
			return nil, fmt.Errorf("%w: retryThrottling %+v is out of range", ErrServiceConfig, *t)
		}
		out.throttle = newThrottle(t.MaxTokens, t.TokenRatio)
	}
	return out, nil
}

func (c *serviceConfig) setBalance(js *jsonConfig) error {
	var names []string
	for _, b := range js.Balancers {
		for name := range b {
			names = append(names, name)
		}
	}
	if js.Balancer != "" && len(names) == 0 {
		names = []string{strings.ToLower(js.Balancer)}
	}
	for _, name := range names {
		switch name {
		case "pick_first":
			c.balance = pickFirst
			return nil
		case "round_robin":
			c.balance = roundRobin
			return nil
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("%w: of the balancers %q none is pick_first or round_robin", ErrServiceConfig, names)
	}
	return nil
}

func (c *serviceConfig) addMethods(m jsonMethods) error {
	mc := &methodConfig{waitForReady: m.WaitForReady, maxSend: -1, maxRecv: -1}
	if m.Timeout != nil {
		mc.timeout = time.Duration(*m.Timeout)
	}
	if m.MaxRequest != nil {
		mc.maxSend = *m.MaxRequest
	}
	if m.MaxResponse != nil {
		mc.maxRecv = *m.MaxResponse
	}
	if r := m.Retry; r != nil {
		p := RetryPolicy{MaxAttempts: r.MaxAttempts, InitialBackoff: time.Duration(r.InitialBackoff),
			MaxBackoff: time.Duration(r.MaxBackoff), BackoffMultiplier: r.Multiplier, RetryableStatusCodes: r.Codes}
		if err := p.check(); err != nil {
			return err
		}
		mc.retry = &p
	}
	for _, n := range m.Name {
		key := ""
		switch {
		case n.Service != "":
			key = "/" + n.Service + "/" + n.Method
		case n.Method != "":
			return fmt.Errorf("%w: a name has a method without a service", ErrServiceConfig)
		}
		if c.methods[key] != nil {
			return fmt.Errorf("%w: %q is named twice", ErrServiceConfig, key)
		}
		c.methods[key] = mc
	}
	return nil
}

// lower returns the smaller of a limit and a configured one.
func lower(limit, configured int) int {
	if configured < 0 {
		return limit
	}
	return min(limit, configured, math.MaxInt32)
}
