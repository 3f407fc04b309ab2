// A controller as people write them: an informer, a work queue, server-side apply, events, and a lease that says who leads.
//
// It copies the data of each config map with the label role=source to another, NAME-copy, that it owns. For each line on
// its standard input it prints what it has seen and done, as one line of JSON. Run by tests/e2e/test_go_client.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

const (
	manager = "copier"
	workers = 4
	suffix  = "-copy"
)

// controller is one of those that run; whoever holds the lease does the work.
type controller struct {
	client     kubernetes.Interface
	namespace  string
	configs    listers.ConfigMapNamespaceLister
	queue      workqueue.TypedRateLimitingInterface[string]
	recorder   record.EventRecorder
	isLeading  atomic.Bool
	reconciled atomic.Int64
	expired    atomic.Int64 // watches that were told to list anew
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the server")
	namespace := flag.String("namespace", "default", "where to work")
	identity := flag.String("identity", "one", "who holds the lease")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	check(err)
	config.QPS, config.Burst = 500, 500
	client := kubernetes.NewForConfigOrDie(config)
	ctx := context.Background()
	one := started(ctx, client, *namespace)
	go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: manager, Namespace: *namespace},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: *identity, EventRecorder: one.recorder},
		},
		LeaseDuration: 60 * time.Second, // longer than the server is away
		RenewDeadline: 50 * time.Second,
		RetryPeriod:   500 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: one.lead,
			OnStoppedLeading: func() { os.Exit(3) },
		},
	})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		one.tell()
	}
}

// started has its informer filled and nothing done yet.
func started(ctx context.Context, client kubernetes.Interface, namespace string) *controller {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps()
	one := &controller{
		client:    client,
		namespace: namespace,
		configs:   informer.Lister().ConfigMaps(namespace),
		queue:     workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		recorder:  broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: manager}),
	}
	check(informer.Informer().SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			one.expired.Add(1)
		}
	}))
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    one.enqueue,
		UpdateFunc: func(_, changed any) { one.enqueue(changed) },
		DeleteFunc: one.enqueue,
	})
	check(err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return one
}

// enqueue has the source of what has changed looked at: a copy that somebody else changed is put right.
func (one *controller) enqueue(changed any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(changed)
	check(err)
	_, name, err := cache.SplitMetaNamespaceKey(key)
	check(err)
	one.queue.Add(strings.TrimSuffix(name, suffix))
}

// lead works until the process ends.
func (one *controller) lead(ctx context.Context) {
	one.isLeading.Store(true)
	for range workers {
		go func() {
			for {
				name, isOver := one.queue.Get()
				if isOver {
					return
				}
				if err := one.reconcile(ctx, name); err != nil {
					one.queue.AddRateLimited(name)
				} else {
					one.queue.Forget(name)
				}
				one.queue.Done(name)
			}
		}()
	}
}

// reconcile makes the copy of a source what it should be.
func (one *controller) reconcile(ctx context.Context, name string) error {
	source, err := one.configs.Get(name)
	if apierrors.IsNotFound(err) {
		err = one.client.CoreV1().ConfigMaps(one.namespace).Delete(ctx, name+suffix, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if err != nil || source.Labels["role"] != "source" {
		return err
	}
	copied, err := one.configs.Get(name + suffix)
	if err == nil && copied.Data["value"] == source.Data["value"] {
		return nil
	}
	owner := applymetav1.OwnerReference().WithAPIVersion("v1").WithKind("ConfigMap").WithName(name).WithUID(source.UID)
	wanted := applycorev1.ConfigMap(name+suffix, one.namespace).WithOwnerReferences(owner).WithData(source.Data)
	options := metav1.ApplyOptions{FieldManager: manager, Force: true}
	if _, err = one.client.CoreV1().ConfigMaps(one.namespace).Apply(ctx, wanted, options); err != nil {
		return err
	}
	one.reconciled.Add(1)
	one.recorder.Eventf(source, corev1.EventTypeNormal, "Copied", "the value is %s", source.Data["value"])
	return nil
}

// tell prints what the informer holds, and what was done.
func (one *controller) tell() {
	held, err := one.configs.List(labels.Everything())
	check(err)
	revisions := map[string]string{}
	for _, config := range held {
		revisions[config.Name] = config.ResourceVersion
	}
	text, err := json.Marshal(map[string]any{
		"leading":    one.isLeading.Load(),
		"held":       revisions,
		"reconciled": one.reconciled.Load(),
		"expired":    one.expired.Load(),
	})
	check(err)
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
