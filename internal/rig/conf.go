package rig

import (
	"fmt"
	"strings"
)

// configuration is the server's smb.conf.
func (s *Server) configuration() string {
	d := s.root
	lines := func(further []string) string {
		if len(further) == 0 {
			return ""
		}
		return "  " + strings.Join(further, "\n  ") + "\n"
	}
	return fmt.Sprintf(`[global]
  workgroup = WORKGROUP
  netbios name = RIG
  server role = standalone server
  interfaces = 127.0.0.1/8
  bind interfaces only = yes
  smb ports = %d
  disable netbios = yes
  dns proxy = no
  passdb backend = tdbsam:%s/private/passdb.tdb
  private dir = %s/private
  lock directory = %s/lock
  state directory = %s/state
  cache directory = %s/cache
  pid directory = %s/pid
  ncalrpc dir = %s/ncalrpc
  log file = %s/log/smbd.log
  max log size = 10000
  map to guest = never
  server min protocol = SMB2_02
  server max protocol = SMB3_11
  load printers = no
  printcap name = /dev/null
  disable spoolss = yes
  %s
%s[share]
  path = %s
  comment = for tests
  read only = no
  valid users = %s
%s[readonly]
  path = %s
  read only = yes
  valid users = %s
%s
`, s.port.Number(), d, d, d, d, d, d, d, d, s.cfg.Mode, lines(s.cfg.Global), s.Dir, s.User, lines(s.cfg.Share), s.Dir, s.User,
		strings.ReplaceAll(strings.Join(s.cfg.Shares, "\n"), "%DIR%", s.Dir))
}
