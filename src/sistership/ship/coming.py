"""Shell that waits: for a staged file while it arrives, and for the load of the layers below."""

from __future__ import annotations

from typing import Final

#: Tenths of a second in which nothing in the staging folder moves, after which a host no longer waits: longer than any
#: link may stall, and than an engine takes to unpack the layers below. Any file counts: while one layer travels, the
#: load of the next one waits too.
_PATIENCE: Final = 18000

#: `coming FILE`: prints FILE while it arrives as FILE.part, and ends when it has its name and all was printed.
#:
#: One descriptor is read on and on, so that it does not matter when the file gets its name. It fails, perhaps after it
#: printed something, when the file `$promise` is gone, or when nothing arrives any more.
#:
#: `loaded FILE`: waits until the load whose metadata is FILE has ended, which leaves FILE.loaded. It fails when that
#: load did not end well, or the file `$promise` is gone.
FUNCTIONS: Final = f"""
tick=2; sleep 0.2 2>/dev/null || tick=10
idle=0; before=
pause() {{
  [ -f "$promise" ] || return 1
  now=$(ls -ln 2>/dev/null)
  if [ "$now" = "$before" ]; then idle=$((idle + tick)); else idle=0; before=$now; fi
  [ "$idle" -lt {_PATIENCE} ] || return 1
  if [ "$tick" -eq 2 ]; then sleep 0.2; else sleep 1; fi
}}
follow() {{
  opened=yes
  while :; do
    whole=; [ ! -f "$1" ] || whole=yes
    cat || return 1
    [ -z "$whole" ] || return 0
    pause || return 1
  done
}}
loaded() {{
  while [ ! -f "$1.loaded" ]; do
    # The metadata goes last: without it, only what was left before can still be found.
    [ -f "$1" ] || {{ [ -f "$1.loaded" ]; return; }}
    pause || return 1
  done
}}
coming() {{
  opened=
  while :; do
    for file in "$1" "$1.part"; do
      [ -f "$file" ] || continue
      # Renamed just now? Then the next round finds it.
      {{ follow "$1" < "$file"; }} 2>/dev/null && return 0
      [ -z "$opened" ] || return 1
    done
    pause || return 1
  done
}}
"""
