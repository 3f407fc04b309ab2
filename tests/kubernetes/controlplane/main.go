// Controlplane holds the parts of a Kubernetes control plane in one program; its first argument says which one to be.
// Tests start it beside Muster and compare answers; tools/kubernetes_facts.py asks it for what the Go types say.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	_ "time/tzdata" // time zones of CronJobs, wherever the tests run

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// Each part is built only when it is the one asked for: the signal handler may be set up once in a process.
var parts = map[string]func() error{
	"etcd":                    serveEtcd,
	"kube-apiserver":          func() error { return exitCode(cli.Run(apiserver.NewAPIServerCommand())) },
	"kube-controller-manager": func() error { return exitCode(cli.Run(controllers.NewControllerManagerCommand())) },
	"kube-scheduler":          func() error { return exitCode(cli.Run(scheduler.NewSchedulerCommand())) },
	"kubectl":                 runKubectl,
	"protobuf":                convertProtobuf,
	"types":                   writeTypes,
}

func main() {
	run, isKnown := parts[partName()]
	if !isKnown {
		names := make([]string, 0, len(parts))
		for name := range parts {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "usage: controlplane %s ARGS...\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	os.Args = os.Args[1:] // what the parts read as their own command line
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func partName() string {
	if len(os.Args) < 2 {
		return ""
	}
	return os.Args[1]
}

func exitCode(code int) error {
	if code != 0 {
		os.Exit(code) // the command has said why
	}
	return nil
}

func runKubectl() error {
	// kubectl prints its errors, and exits with their code, by itself.
	util.CheckErr(cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()))
	return nil
}
