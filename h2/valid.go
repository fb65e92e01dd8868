package h2

// checkField says what is wrong with a regular field (RFC 9113 section 8.2);
// nothing: "".
func checkField(name, value string) string {
	if name == "" {
		return "a field without a name"
	}
	for i := 0; i < len(name); i++ {
		if b := name[i]; b <= ' ' || b >= 0x7f || b >= 'A' && b <= 'Z' || b == ':' {
			return "a field name with characters that are not allowed"
		}
	}
	if !validValue(value) {
		return "a field value with control characters"
	}
	switch name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return "a field that belongs to a connection"
	case "te":
		if value != "trailers" {
			return "te other than trailers"
		}
	}
	return ""
}

func validValue(v string) bool {
	for i := 0; i < len(v); i++ {
		if b := v[i]; b == 0 || b == '\r' || b == '\n' {
			return false
		}
	}
	return true
}
