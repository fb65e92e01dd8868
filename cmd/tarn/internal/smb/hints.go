package smb

// hint explains a status to the user.
func hint(status string) string {
	switch status {
	case "STATUS_LOGON_FAILURE", "STATUS_WRONG_PASSWORD", "STATUS_NO_SUCH_USER":
		return "wrong user or password"
	case "STATUS_ACCOUNT_LOCKED_OUT":
		return "the account is locked"
	case "STATUS_ACCOUNT_DISABLED":
		return "the account is disabled"
	case "STATUS_PASSWORD_EXPIRED", "STATUS_PASSWORD_MUST_CHANGE":
		return "the password has to be changed"
	case "STATUS_BAD_NETWORK_NAME":
		return "no such share"
	case "STATUS_ACCESS_DENIED":
		return "not allowed"
	case "STATUS_OBJECT_NAME_NOT_FOUND", "STATUS_OBJECT_PATH_NOT_FOUND", "STATUS_NO_SUCH_FILE":
		return "no such file or directory"
	case "STATUS_DISK_FULL":
		return "the server's disk is full"
	case "STATUS_SHARING_VIOLATION", "STATUS_FILE_LOCK_CONFLICT":
		return "another client has it open or locked"
	case "STATUS_OBJECT_NAME_COLLISION":
		return "a file or directory of that name exists"
	case "STATUS_DIRECTORY_NOT_EMPTY":
		return "not empty; rm -r removes what the server lists in it"
	}
	return ""
}
