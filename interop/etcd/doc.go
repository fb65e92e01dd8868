// Package etcd runs etcd's Go client over package rpc against a real etcd of two members,
// and a Tarn client on etcd's resolver.
package etcd
