#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubernetes.py SOURCE BUILD: runs what the manifests say, without a cluster.

A node is a folder. The daemon runs in a mount namespace with the manifest's arguments, settings, mounts, capabilities
and read-only root; the pod is another one with a root folder of its own, which has the program, the C library and the
manifest's two mounts, read-only, with the manifest's variables, its user and a pid namespace of its own. Then the pod's user measures it from the
node. The GPU is the fakes'. What the kubelet, the scheduler and admission make of the manifests is not seen here."""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 120
CAP_PERFMON = 38


def skip(reason):
    print("SKIP:", reason)
    sys.exit(77)


try:
    import yaml
except ImportError:
    skip("python3-yaml is not installed")
if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"],
                                       capture_output=True, check=False).returncode != 0:
    skip("needs root, and namespaces of mounts and pids")
if not int(re.search(r"^CapEff:\s*(\w+)", pathlib.Path("/proc/self/status").read_text(), re.M)[1], 16) >> CAP_PERFMON & 1:
    skip("needs CAP_PERFMON, which root lacks here, as in most containers")

source, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
manifests = source / "packaging/kubernetes"
daemonset, configmap = yaml.safe_load_all((manifests / "daemonset.yaml").read_text())
pod = yaml.safe_load((manifests / "pod.yaml").read_text())
node_spec, pod_spec = daemonset["spec"]["template"]["spec"], pod["spec"]
LABELS = {"metadata.name": pod["metadata"]["name"], "metadata.namespace": "default"}


def host_paths(spec):
    return {v["name"]: v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v}


def variables(container):
    """As the kubelet sets them; a label that the pod does not have is an empty value."""
    return {e["name"]: e.get("value", LABELS.get(e.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath"), ""))
            for e in container.get("env", [])}


def mounts(node, spec, container, root):
    """Shell commands that mount the container's volumes of the node below root."""
    lines, paths = [], host_paths(spec)
    for v in spec["volumes"]:
        if "emptyDir" in v:
            paths[v["name"]] = f"/empty/{v['name']}"
            (node / paths[v["name"]].lstrip("/")).mkdir(parents=True, exist_ok=True)
    for m in container["volumeMounts"]:
        if m["name"] in paths:
            target = shlex.quote(f"{root}{m['mountPath']}")
            lines += [f"mkdir -p {target}", f"mount --bind {node}{paths[m['name']]} {target}"]
            lines += [f"mount -o remount,bind,ro {target}"] if m.get("readOnly") else []
    return lines


def make_node(top):
    """What is executed, where every user reaches it, and the folders that the kubelet makes."""
    for folder in ("bin", "fake", "state", "node", "pod"):
        (top / folder).mkdir()
    (top / "state").chmod(0o1777)
    for name in ("daemon/gpucountd", "client/cli/gpuctr-client", "client/lib/libgpuctr.so.0"):
        shutil.copy(build / name, top / "bin")
    for path in (build / "tests/fake").glob("*"):
        if path.is_file() and (".so" in path.name or path.name == "fakeapp"):
            shutil.copy(path, top / "fake")
    for path in host_paths(node_spec).values():
        (top / "node" / path.lstrip("/")).mkdir(parents=True)
    (top / "conf").write_text(configmap["data"]["gpucountd.conf"])
    agent = top / "agent"
    agent.mkdir()
    shutil.copy(build / "client/agent/libgpuctr-agent.so", agent)
    init = node_spec["initContainers"][0]
    target = {m["mountPath"]: top / "node" / host_paths(node_spec)[m["name"]].lstrip("/") for m in init["volumeMounts"]}
    *copy, outside, inside = init["command"]
    subprocess.run([*copy, f"{agent}/.", target[inside]], check=True)
    return outside


def fakes(top):
    return {"GPUCTR_FAKE_DIR": f"{top}/state", "LD_LIBRARY_PATH": f"{top}/fake", "LD_PRELOAD": f"{top}/fake/libfakedriver.so"}


def start_daemon(top):
    container = node_spec["containers"][0]
    context = container["securityContext"]
    bounds = ",".join(["-all", *("+" + c.lower() for c in context["capabilities"]["add"])])
    lines = ["mount -t tmpfs none /run", *mounts(top / "node", node_spec, container, ""), f"mount --bind {top} {top}"]
    lines += ["mount -o remount,bind,ro /"] if context["readOnlyRootFilesystem"] else []
    privs = "" if context["allowPrivilegeEscalation"] else "--no-new-privs"
    env = " ".join(f"{k}={shlex.quote(v)}" for k, v in fakes(top).items())
    lines.append(f"exec setpriv {privs} --inh-caps=-all --bounding-set={bounds} env {env} {top}/bin/gpucountd --config {top}/conf "
                 + shlex.join(container["args"]))
    return subprocess.Popen(["unshare", "--mount", "sh", "-ec", "\n".join(lines)], stdout=subprocess.DEVNULL,
                            stderr=(top / "daemon.log").open("w"))


def make_image(top):
    root = top / "pod"
    binaries = [top / "fake/fakeapp", *(top / "fake").glob("*.so*"), *(top / "agent").glob("*.so")]
    text = subprocess.run(["ldd", *binaries], env={**os.environ, "LD_LIBRARY_PATH": f"{top}/fake"}, capture_output=True, text=True,
                          check=True).stdout
    for path in {m for m in re.findall(r"(/\S+\.so\S*)", text) if not m.startswith(str(top))}:
        path = path.rstrip(":")
        (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(path), root / path.lstrip("/"))
    for folder in ("proc", "dev", "tmp", f"{top}/fake".lstrip("/"), f"{top}/state".lstrip("/")):
        (root / folder).mkdir(parents=True, exist_ok=True)
    return root


def start_pod(top):
    container, root = pod_spec["containers"][0], make_image(top)
    uid = pod_spec["securityContext"]["runAsUser"]
    lines = [f"mount --bind {top}/{f} {root}{top}/{f}" for f in ("fake", "state")]  # as a driver's libraries and devices come in
    lines += [f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev", *mounts(top / "node", pod_spec, container, root)]
    env = {**variables(container), **fakes(top)}
    lines.append(f"exec env -i {' '.join(f'{k}={shlex.quote(v)}' for k, v in env.items())} "
                 f"{shutil.which('chroot', path='/usr/sbin:/sbin:/usr/bin:/bin')} --userspec={uid}:{uid} --groups= {root} {top}/fake/fakeapp --kernels 600000 --sleep-us 500")
    return subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "sh", "-ec", "\n".join(lines)], stdout=subprocess.DEVNULL,
                            stderr=(top / "pod.log").open("w"))


def end_pod(process):
    """Its first process has become another user, and ends with nobody; with it ends all that is in the pod."""
    for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    process.wait(PATIENCE_S)


def client(top, *arguments, uid=None):
    uid = pod_spec["securityContext"]["runAsUser"] if uid is None else uid
    socket = variables(pod_spec["containers"][0])["GPUCTR_SOCKET"]
    return subprocess.run([top / "bin/gpuctr-client", *arguments], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": f"{top}/bin", "GPUCTR_SOCKET": f"{top}/node{socket}",
                               "GPUCTR_AGENT": f"{top}/agent/libgpuctr-agent.so"}, user=uid, group=uid, extra_groups=[],
                          timeout=PATIENCE_S, check=False)


def inside(top, daemon, *arguments):
    """As root in the daemon's container, where `kubectl exec` begins."""
    container = node_spec["containers"][0]
    bounds = ",".join(["-all", *("+" + c.lower() for c in container["securityContext"]["capabilities"]["add"])])
    env = {**variables(container), "LD_LIBRARY_PATH": f"{top}/bin", "PATH": "/usr/bin:/bin", "GPUCTR_SOCKET": container["args"][1]}
    command = ["nsenter", "--mount", f"--target={daemon.pid}", "setpriv", "--inh-caps=-all", f"--bounding-set={bounds}", "env", "-i",
               *(f"{k}={v}" for k, v in env.items()), "sh", "-c", f"cd {container['workingDir']} && exec \"$@\"", "sh", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def wait_for(what, ask):
    by = time.monotonic() + PATIENCE_S
    while not (answer := ask()):
        if time.monotonic() > by:
            sys.exit(f"FAIL: {what} does not come")
        time.sleep(0.1)
    return answer


def expect(good, what, found=""):
    print("ok  " if good else "FAIL", what, "" if good else found)
    return good


def look(top, daemon):
    registered = wait_for("the pod's program", lambda: json.loads(client(top, "status", "--json").stdout)["processes"])
    p = registered[0]
    named = variables(pod_spec["containers"][0])
    told = {k: v for k, v in named.items() if k.startswith("GPUCTR_POD_")}
    mounted = {m[4]: m[5] for m in map(str.split, pathlib.Path(f"/proc/{p['pid']}/mountinfo").read_text().splitlines())}
    status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
    measured = client(top, "capture", "--all", "--metrics", "dram__bytes_read.sum", "--count", "10", "--stream")
    kernels = [k for k in map(json.loads, measured.stdout.splitlines()) if k["type"] == "kernel"]
    written = inside(top, daemon, f"{top}/bin/gpuctr-client", "capture", "--all", "--metrics", "dram__bytes_read.sum",
                     "--count", "10", "-o", "run.gpuctr")
    size = inside(top, daemon, "stat", "-c", "%s", "run.gpuctr")
    elsewhere = inside(top, daemon, "touch", "/usr/run.gpuctr")
    refused = client(top, "--metrics", "dram__bytes_read.sum", "--", "/bin/true", uid=p["uid"] + 1)
    return all([
        expect(p["uid"] == pod_spec["securityContext"]["runAsUser"], "the pod's program is registered as its user", p),
        expect(told and told.items() <= p["claims"].items(), "it says which pod it is of", p),
        expect(all(mounted.get(m["mountPath"], "").split(",")[0] == "ro" for m in pod_spec["containers"][0]["volumeMounts"]),
               "both mounts are read-only in the pod", mounted),
        expect("CapEff:\t0000004000000000" in status and "NoNewPrivs:\t1" in status, "the daemon has CAP_PERFMON and no more", status),
        expect(len(kernels) >= 10 and measured.returncode == 0, "its user measures it from the node", measured),
        expect(written.returncode == 0 and int(size.stdout or 0) > 10000, "root measures it in the daemon's container, into a file", written),
        expect(elsewhere.returncode != 0, "whose root is read-only", elsewhere),
        expect("not-allowed" in refused.stderr, "who is not in the settings is refused", refused),
    ])


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("FAIL: ended from outside"))  # and all that was started with it
    top = pathlib.Path(tempfile.mkdtemp(prefix="gpuctr-kubernetes."))
    top.chmod(0o755)
    daemon = program = None
    good = False
    try:
        make_node(top)
        daemon = start_daemon(top)
        wait_for("the daemon", lambda: client(top, "status").returncode == 0)
        program = start_pod(top)
        good = look(top, daemon)
    finally:
        if program:
            end_pod(program)
        if daemon:
            daemon.terminate()
            daemon.wait(PATIENCE_S)
        if not good:
            print(*((top / f).read_text() for f in ("daemon.log", "pod.log") if (top / f).exists()), sep="\n")
        shutil.rmtree(top)
    return 0 if good else 1


sys.exit(main())
