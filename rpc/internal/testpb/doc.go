// Package testpb has messages for tests, with every kind of field. They are made by
//
//	protoc --go_out=. --go_opt=paths=source_relative everything.proto legacy.proto
//	protoc --go_out=. --go_opt=paths=source_relative,default_api_level=API_OPAQUE opaque.proto
package testpb
