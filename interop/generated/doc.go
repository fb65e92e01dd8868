// Package generated has messages as generators other than protoc-gen-go make them, and
// protoc-gen-go's opaque ones, and tests that they pass Tarn's runtime: sent and received, plain and lent,
// large and small. They are made by
//
//	protoc --go_out=. --go_opt=paths=source_relative \
//	    --go-vtproto_out=. --go-vtproto_opt=paths=source_relative,features=marshal+unmarshal+size vt/record_vt.proto
//	protoc --go_out=. --go_opt=paths=source_relative,default_api_level=API_OPAQUE opaque/record_opaque.proto
package generated
