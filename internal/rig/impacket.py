# impacket's SMB server with one user and one share: port, directory, user, password, share.
import sys

from impacket import smbserver
from impacket.ntlm import compute_lmhash, compute_nthash

port, directory, user, password, share = sys.argv[1:]
server = smbserver.SimpleSMBServer("127.0.0.1", int(port))
server.setSMB2Support(True)
server.addShare(share, directory)
server.addCredential(user, 0, compute_lmhash(password), compute_nthash(password))
server.setLogFile("None")
server.start()
