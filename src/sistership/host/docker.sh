# What the scripts of a host with Docker call; `commands.py` says what each function does. Two lines are put before it:
#   engine() { docker "$@"; }  starts the engine's CLI, as the inventory has it
#   chosen=yes                 the matrix says which engine is meant; empty: it does not
# shellcheck shell=sh

ask_engine() {
  sec endpoint; engine context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null
  sec engines; [ -n "$chosen" ] || look_around
  sec version; version=$(engine version --format '{{json .Server}}' 2>&1); printf '%s\n' "$version"
  case $version in
    *'{'*) ;;
    *) sec podman; { engine --version || podman --version; } 2>/dev/null | tail -n 1 ;;
  esac
  info=$(engine info --format '{{json .}}' 2>&1); rc=$?
  sec info; printf '%s\n' "$info"
  sec info_status; echo $rc
  root=$(printf '%s\n' "$info" | sed -n 's/.*"DockerRootDir":"\([^"]*\)".*/\1/p')
  sec disk; df -Pk "${root:-/}" 2>/dev/null | tail -n 1
  sec disk2; [ -d /var/lib/containerd ] && df -Pk /var/lib/containerd 2>/dev/null | tail -n 1
  ids=$(engine image ls --all --quiet --no-trunc 2>&1); rc=$?
  sec images_status; echo "$rc"; [ $rc -eq 0 ] || { echo "$ids"; ids=; }
  ids=$(printf '%s\n' "$ids" | sort -u)
  sec images
  # By name as well: the containerd store of Engine 26.1 does not list an image that lacks a layer.
  # shellcheck disable=SC2086 # one word for each ID
  [ -z "$ids$*" ] || engine image inspect --format '{{json .}}' $ids "$@" 2>/dev/null
}

# Prints `ENDPOINT ID` for every engine that answers, where this user has one beside root's; else nothing.
look_around() {
  own=; for s in "${XDG_RUNTIME_DIR:-/run/user/$(id -u)}/docker.sock" "/run/user/$(id -u)/docker.sock"; do
    [ ! -S "$s" ] || own=$s
  done
  [ -z "$own" ] || for s in "${own}" /var/run/docker.sock; do
    id=$(engine --host "unix://$s" info --format '{{.ID}}' 2>/dev/null) && [ -n "$id" ] && echo "unix://$s $id"
  done
}

load_image() { engine load 2>&1; }
save_image() { engine save "$1"; }
pull_image() { engine pull "$1" 2>&1; }
tag_image() { engine tag "$1" "$2"; }
drop_name() { engine image rm --no-prune "$1"; }
image_id() { engine image inspect --format '{{.Id}}' "$1" 2>/dev/null; }

container=
open_image() {
  said=$(engine create --pull never --network none --entrypoint /sistership-proof "$1" 2>&1) ||
    { printf '%s\n' "$said"; return 1; }
  container=$(printf '%s\n' "$said" | tail -n 1)
}
copy_out() { engine cp "$container:$1" -; }
image_folders() { engine inspect --format '{{with .GraphDriver}}{{with .Data}}{{.LowerDir}}{{end}}{{end}}' "$container" 2>/dev/null; }
is_open() { engine inspect "$container" >/dev/null 2>&1; }
close_image() { [ -z "$container" ] || { engine rm -fv "$container" >/dev/null && container=; }; }
prove_image() { open_image "$1" && close_image; }

used_images() {
  ids=$(engine ps --all --quiet --no-trunc 2>&1) || { printf '%s\n' "$ids"; return 1; }
  [ -n "$ids" ] || return 0
  # shellcheck disable=SC2086 # one word for each ID
  told=$(engine container inspect --format '{{.Image}} {{.Name}}' $ids 2>/dev/null)
  printf '%s\n' "$told"
  all=$(printf '%s\n' "$ids" | wc -l) some=$(printf '%s' "$told" | grep -c .)
  [ "$some" -eq "$all" ] || { echo "it told of $((some)) of $((all)) containers"; return 1; }
}
