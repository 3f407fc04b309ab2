package main

import (
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	builtin "k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// knownTypes are the Go types of every built-in kind as clients send them, by group, version and kind.
func knownTypes() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(builtin.AddToScheme(scheme))
	utilruntime.Must(apiextensions.AddToScheme(scheme))
	utilruntime.Must(apiregistration.AddToScheme(scheme))
	utilruntime.Must(meta.AddMetaToScheme(scheme))
	return scheme
}
