// Package logs has the messages of command decode, as protoc-gen-go and vtprotobuf make them:
//
//	protoc --go_out=. --go_opt=paths=source_relative \
//	    --go-vtproto_out=. --go-vtproto_opt=paths=source_relative,features=unmarshal+unmarshal_unsafe+marshal+size vt/logs_vt.proto
//	protoc --go_out=. --go_opt=paths=source_relative logs.proto
package logs
