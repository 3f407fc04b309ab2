package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

// serveEtcd keeps the API server's objects in a folder until it is told to stop.
func serveEtcd() error {
	folder := flag.String("data-dir", "", "where the objects are kept")
	clients := flag.String("listen-client-url", "http://127.0.0.1:2379", "where the API server finds them")
	peers := flag.String("listen-peer-url", "http://127.0.0.1:2380", "where other members would")
	isUnsafe := flag.Bool("unsafe-no-fsync", false, "do not wait for the disk")
	flag.Parse()

	config := embed.NewConfig()
	config.Dir = *folder
	config.LogLevel = "warn"
	config.UnsafeNoFsync = *isUnsafe
	config.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration // left at 0, every request is logged
	client, err := url.Parse(*clients)
	if err != nil {
		return err
	}
	peer, err := url.Parse(*peers)
	if err != nil {
		return err
	}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)

	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	select {
	case <-stop:
		return nil
	case <-server.Server.StopNotify():
		return fmt.Errorf("etcd stopped by itself")
	case err := <-server.Err():
		return err
	}
}
