# What the scripts of a host with containerd alone call; `commands.py` says what each function does. Before it are put:
#   engine() { ctr --namespace k8s.io "$@"; }  starts ctr, as the inventory has it
#   as_root() { "$@"; }                        starts a program with the rights that ctr has
# Names are whole there, as Kubernetes has them: docker.io/library/x:1. Its CRI plugin gives each image its config digest
# as a further name, `sha256:…`; that one is never ours to choose, and goes with the last of the others.
# shellcheck shell=sh

ask_engine() {
  version=$(engine version 2>&1)
  sec version; printf '%s\n' "$version"
  # Each further question would wait as long for the address that does not answer.
  case $version in *Server:*) ;; *) return ;; esac
  root=$(engine plugins ls --detailed id==content 2>/dev/null | sed -n 's,^ *root  *\(/.*[^ ]\) *$,\1,p' | head -n 1)
  root=${root:-/var/lib/containerd}
  # Without root's rights the folder itself may be hidden.
  until df -Pk "$root" >/dev/null 2>&1 || [ "$root" = / ]; do root=$(dirname "$root"); done
  sec disk; df -Pk "$root" | tail -n 1
  listed=$(engine images ls 2>&1); rc=$?
  sec images_status; echo "$rc"; [ $rc -eq 0 ] || { printf '%s\n' "$listed"; return; }
  sec images; printf '%s\n' "$listed"
  blobs=$(engine content ls 2>&1); rc=$?
  sec content_status; echo "$rc"; [ $rc -eq 0 ] || { printf '%s\n' "$blobs"; return; }
  sec content; printf '%s\n' "$blobs"
  sec configs
  printf '%s\n' "$blobs" | sed -n 's/.*gc\.ref\.content\.config=\(sha256:[0-9a-f]*\).*/\1/p' | sort -u |
    while read -r digest; do printf '%s ' "$digest"; engine content get "$digest" 2>/dev/null | tr -d '\r\n'; echo; done
}

full_name() {
  case $1 in
    docker.io/*/*) echo "$1" ;;
    docker.io/*) echo "docker.io/library/${1#docker.io/}" ;;
    */*)
      case ${1%%/*} in
        *.* | *:* | localhost) echo "$1" ;;
        *) echo "docker.io/$1" ;;
      esac
      ;;
    *) echo "docker.io/library/$1" ;;
  esac
}

# Every name of an image by its ID; one by an ID or a name.
names_of() { engine images ls | while read -r name _ digest _; do [ "$digest" != "$1" ] || echo "$name"; done; }
name_of() {
  case $1 in
    sha256:*) names_of "$1" | sort -r | sed -n '/^sha256:/!p' | head -n 1 | grep . || names_of "$1" | head -n 1 | grep . ;;
    *) image_id "$1" >/dev/null && full_name "$1" ;;
  esac || { echo "it holds no image $1" >&2; return 1; }
}
image_id() {
  wanted=$(full_name "$1")
  engine images ls 2>/dev/null | while read -r name _ digest _; do [ "$name" != "$wanted" ] || echo "$digest"; done | grep .
}

load_image() { engine images import - 2>&1; }
save_image() { name=$(name_of "$1") && engine images export - "$name"; }
# ctr does not read the configuration of the CRI plugin: registries are taken from where that has them as a rule.
# It says "done" of a layer that it had and of one that it fetched, so what was there is asked before, and said in the
# words that Docker has for it.
pull_image() {
  folder=/etc/containerd/certs.d
  {
    engine content ls --quiet 2>/dev/null | sed 's/^/had /'
    if [ -d "$folder" ]; then engine images pull --hosts-dir "$folder" "$1" 2>&1; else engine images pull "$1" 2>&1; fi
    echo "status $?"
  } | tr '\r' '\n' | awk '
    $1 == "had" { had[$2] = 1; next }
    $1 == "status" && NF == 2 { status = $2; next }
    /^layer-sha256:/ {
      digest = substr($1, 7, 71)
      if (($2 == "done" || $2 == "exists") && !(digest in told))
        print substr(digest, 8, 12) ": " (digest in had ? "Already exists" : "Pull complete")
      if ($2 == "done" || $2 == "exists") told[digest] = 1
      next
    }
    /^(index|manifest|config)-sha256:|^elapsed: |: +resolved / { next }
    { print }
    END { exit status }'
}

# Pinned: a kubelet that runs short of disk removes what no container uses, and nothing would bring it back.
tag_image() {
  name=$(name_of "$1") && to=$(full_name "$2") || return 1
  if [ "$(image_id "$name")" != "$(image_id "$to")" ]; then
    engine images tag --force "$name" "$to" >/dev/null || return 1
  fi
  now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  engine images label "$to" io.cri-containerd.pinned=pinned "dev.sistership.tagged=$now" >/dev/null
}
drop_name() {
  held=$(image_id "$1") || { echo "it holds no image $1" >&2; return 1; }
  engine images rm --sync "$(full_name "$1")" >/dev/null || return 1
  names_of "$held" | grep -qv '^sha256:' ||
    names_of "$held" | while read -r name; do engine images rm --sync "$name" >/dev/null; done
}

# Making a container also unpacks what is not unpacked yet, as the kubelet would have it done.
prove_image() {
  name=$(name_of "$1" 2>&1) || { echo "$name"; return 1; }
  proof=sistership-proof-$$-$(date +%s)
  said=$(engine containers create "$name" "$proof" /sistership-proof 2>&1) || { printf '%s\n' "$said"; return 1; }
  engine containers rm "$proof" >/dev/null 2>&1
}

mounted=
open_image() {
  name=$(name_of "$1" 2>&1) || { echo "$name"; return 1; }
  folder=$(mktemp -d "${TMPDIR:-/tmp}/sistership.XXXXXX") && mounted=$(cd "$folder" && pwd -P) || return 1
  said=$(engine images mount "$name" "$mounted" 2>&1) || { printf '%s\n' "$said"; return 1; }
}
# A link in the image may lead out of it, to a file of the host.
copy_out() {
  inside=$(dirname "$mounted/$1")
  inside=$(readlink -f "$inside" 2>/dev/null || as_root readlink -f "$inside")
  case $inside/ in "$mounted"/*) ;; *) echo "$1 leads out of the image" >&2; return 1 ;; esac
  file=./$(basename "$1")
  if [ -r "$inside/$file" ]; then tar -C "$inside" -cf - "$file"; else as_root tar -C "$inside" -cf - "$file"; fi
}
image_folders() { printf '%s\n' "$mounted"; }
is_open() { [ -n "$mounted" ] && grep -qF " $mounted " /proc/mounts; }
close_image() {
  [ -n "$mounted" ] || return 0
  ! is_open || engine images unmount --rm "$mounted" >/dev/null || return 1
  rmdir "$mounted" && mounted=
}

# A container's image is told by what its files lie on: the name that it was made by may be another image's by now.
used_images() {
  listed=$(engine images ls 2>&1) && blobs=$(engine content ls 2>&1) && shots=$(engine snapshots ls 2>&1) &&
    boxes=$(engine containers ls 2>&1) || { printf '%s\n' "$listed" "$blobs" "$shots" "$boxes" | grep . | tail -n 1; return 1; }
  {
    printf '%s\n' "$listed" | sed 's/^/image /'
    printf '%s\n' "$blobs" | tr ',' ' ' | sed 's/^/blob /'
    printf '%s\n' "$shots" | sed 's/^/shot /'
    printf '%s\n' "$boxes" | sed 's/^/box /'
  } | awk '
    $1 == "image" { id[$2] = $4; held[$4] = 1 }
    $1 == "blob" {
      for (i = 3; i <= NF; i++) {
        split($i, label, "=")
        if (label[1] == "containerd.io/gc.ref.content.config") config[$2] = label[2]
        if (label[1] ~ /^containerd\.io\/gc\.ref\.snapshot\./) top[label[2]] = top[label[2]] " " $2
        if (label[1] ~ /^containerd\.io\/gc\.ref\.content\.m\./) list[label[2]] = $2
      }
    }
    $1 == "shot" && $4 == "Active" && $2 !~ /^extract-/ { lies[$2] = $3 }
    $1 == "box" && $3 in id { print id[$3], $2 }
    END {
      for (key in lies) for (m in config) if (index(top[lies[key]] " ", " " config[m] " ")) {
        if (held[m]) print m, key
        if (held[list[m]]) print list[m], key
      }
    }'
}
