# What `sistership doctor` asks a host. It changes nothing there. Two lines are put before it:
#   tools="…"                    programs to look for
#   cli() { docker "$@"; }       starts the engine's CLI, as the inventory says it
# shellcheck shell=sh
sec() { printf '\n@@%s\n' "$1"; }
# A daemon that hangs must not hide what else there is to say.
if command -v timeout >/dev/null 2>&1; then lim() { timeout 15 "$@"; }; else lim() { "$@"; }; fi
if command -v sudo >/dev/null 2>&1; then root() { lim sudo -n "$@"; }; else root() { return 127; }; fi
sec machine; uname -sm
sec boot; cat /proc/sys/kernel/random/boot_id 2>/dev/null
sec clock; date -u +%s
sec user; id -un; id -u
sec tools; for t in $tools; do command -v "$t" >/dev/null 2>&1 && echo "$t"; done
sec programs
for p in docker podman nerdctl ctr crictl k3s nvidia-ctk; do
  w=$(command -v "$p" 2>/dev/null) && echo "$p $w"
done
for p in "$HOME/bin/docker" "$HOME/.docker/bin/docker" "$HOME/.rd/bin/docker" /opt/docker/bin/docker \
  /usr/local/lib/docker/docker /Applications/Docker.app/Contents/Resources/bin/docker \
  /var/packages/*/target/usr/bin/docker; do
  [ -x "$p" ] && echo "elsewhere $p"
done
sec cache
c=${XDG_CACHE_HOME:-$HOME/.cache}/sistership
while [ ! -e "$c" ] && [ "$c" != / ] && [ "$c" != . ]; do c=$(dirname "$c"); done
if [ -d "$c" ] && [ -w "$c" ]; then echo "writable $c"; else echo "closed $c"; fi
df -Pk "$c" 2>/dev/null | tail -n 1
sec sudo
if command -v sudo >/dev/null 2>&1; then lim sudo -n true 2>&1; echo "status $?"; fi
sec cli; cli --version 2>&1 | tail -n 1
sec context; cli context inspect --format '{{.Name}} {{.Endpoints.docker.Host}}' 2>/dev/null
sec version; v=$(cli version --format '{{json .Server}}' 2>&1); printf '%s\n' "$v"
case $v in *'{'*) ;; *) sec asroot; root docker version --format '{{json .Server}}' 2>&1 ;; esac
sec info; cli info --format '{{json .}}' 2>/dev/null
sec buildx; cli buildx version 2>&1 | tail -n 1
dir=$(cli info --format '{{.DockerRootDir}}' 2>/dev/null)
sec disk; df -Pk "${dir:-/}" 2>/dev/null | tail -n 1
sec disk2; [ -d /var/lib/containerd ] && df -Pk /var/lib/containerd 2>/dev/null | tail -n 1
sec sockets
u=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
for s in /var/run/docker.sock "$u/docker.sock" /run/podman/podman.sock "$u/podman/podman.sock" \
  /run/containerd/containerd.sock /run/k3s/containerd/containerd.sock; do [ -S "$s" ] && echo "$s"; done
sec daemons
for s in /var/run/docker.sock "$u/docker.sock"; do
  [ -S "$s" ] && [ -w "$s" ] && command -v docker >/dev/null 2>&1 &&
    echo "$s $(lim env -u DOCKER_CONTEXT DOCKER_HOST="unix://$s" docker info \
      --format '{{.ID}} {{.ServerVersion}}' 2>/dev/null)"
done
sec podman; command -v podman >/dev/null 2>&1 && lim podman --version 2>&1 | tail -n 1
sec cards
for d in /sys/bus/pci/devices/*; do
  case $(cat "$d/vendor" "$d/class" 2>/dev/null | tr '\n' ' ') in '0x10de 0x03'*) echo "${d##*/}" ;; esac
done
sec gpu
if command -v nvidia-smi >/dev/null 2>&1; then
  g=$(lim nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader 2>&1); r=$?
  case $g in *'not a valid field'*)
    # Drivers before 510 do not know compute_cap.
    g=$(lim nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>&1); r=$?
    g=$(printf '%s\n' "$g" | sed 's/, \([^,]*\)$/, [N\/A], \1/') ;;
  esac
  printf '%s\nstatus %d\n' "$g" "$r"
fi
sec cdi; ls /etc/cdi /var/run/cdi 2>/dev/null | grep -i nvidia
true
