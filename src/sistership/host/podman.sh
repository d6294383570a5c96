# What the scripts of a host with Podman call; `commands.py` says what each function does. One line is put before it:
#   engine() { podman "$@"; }  starts the engine's CLI, as the inventory has it
# Podman warns on standard error (old cgroups, no session of systemd), so that never counts as an answer.
# shellcheck shell=sh

ask_engine() {
  info=$(engine info --format '{{json .}}' 2>/dev/null); rc=$?
  [ $rc -eq 0 ] || { said=$(engine info 2>&1); info=$(words); }
  sec info; printf '%s\n' "$info"
  sec info_status; echo $rc
  sec place; stat -c '%d:%i' / 2>/dev/null
  root=$(printf '%s\n' "$info" | sed -n 's/.*"graphRoot":"\([^"]*\)".*/\1/p')
  sec disk; df -Pk "${root:-/}" 2>/dev/null | tail -n 1
  spool=$(printf '%s\n' "$info" | sed -n 's/.*"imageCopyTmpDir":"\([^"]*\)".*/\1/p')
  sec spool; df -Pk "${spool:-/var/tmp}" 2>/dev/null | tail -n 1
  ids=$(engine image ls --all --quiet --no-trunc 2>/dev/null); rc=$?
  sec images_status; echo "$rc"; [ $rc -eq 0 ] || { said=$(engine image ls 2>&1); words; }
  ids=$(printf '%s\n' "$ids" | sort -u)
  sec images
  # shellcheck disable=SC2086 # one word for each ID
  [ -z "$ids" ] || engine image inspect --format '{{json .}}' $ids 2>/dev/null
}

# A name as Podman keeps it: without a registry it is one of this machine alone. Asked for by its short form it might be
# any registry's.
full() {
  case $1 in
    sha256:*) printf '%s\n' "$1"; return ;;
    */*) case ${1%%/*} in *.*|*:*|localhost) printf '%s\n' "$1"; return ;; esac ;;
  esac
  printf 'localhost/%s\n' "$1"
}

load_image() { engine load 2>&1; }
save_image() { engine save "$(full "$1")"; }
pull_image() { engine pull "$1" 2>&1; }
tag_image() { engine tag "$(full "$1")" "$(full "$2")"; }
image_id() {
  id=$(engine image inspect --format '{{.Id}}' "$(full "$1")" 2>/dev/null) && [ -n "$id" ] && echo "sha256:${id#sha256:}"
}
drop_name() {
  said=$(engine image rm --no-prune "$(full "$1")" 2>&1) && return
  case $said in
    # Older ones do not know it, and take nameless images below along.
    *'unknown flag'*) engine image rm "$(full "$1")" >/dev/null ;;
    *) words >&2; return 1 ;;
  esac
}

container=
open_image() {
  said=$(engine create --pull never --network none --entrypoint /sistership-proof "$(full "$1")" 2>&1) || { words; return 1; }
  container=$(printf '%s\n' "$said" | grep -x '[0-9a-f]\{64\}')
}
words() { printf '%s\n' "$said" | grep -v '^time=.* level=warning '; }
copy_out() { engine cp "$container:$1" -; }
image_folders() { engine container inspect --format '{{.GraphDriver.Data.LowerDir}}' "$container" 2>/dev/null; }
is_open() { engine container inspect "$container" >/dev/null 2>&1; }
close_image() { [ -z "$container" ] || { engine rm -fv "$container" >/dev/null && container=; }; }
# A container is made of an image that lacks a layer, too (5.4.2), but then nothing can be written into it.
prove_image() {
  open_image "$1" || return 1
  said=$(engine cp /etc/hosts "$container:/sistership-proof" 2>&1); rc=$?
  close_image 2>/dev/null || { rc=1 said="a container of it could not be removed: $container"; }
  [ $rc -eq 0 ] || { words; return 1; }
}

used_images() {
  engine ps --all --external --no-trunc --format '{{.ImageID}} {{.Names}}' 2>/dev/null && return
  said=$(engine ps --all 2>&1); words
  return 1
}
