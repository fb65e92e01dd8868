// Package bigtable runs Cloud Bigtable's Go client over package rpc against its emulator, in one process.
package bigtable
