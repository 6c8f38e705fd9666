"""Of a report of ncu (sections SourceCounters), how often each instruction of each kernel was executed, as JSON.

  ncu --profile-from-start off --section SourceCounters --metrics METRICS -o REPORT ./replay once FOLDER PLAN
  PYTHONPATH=$(dirname $(find / -name ncu_report.py)) python3 executed.py REPORT.ncu-rep > REPORT.json
"""
import json, sys
import ncu_report

METRICS = sys.argv[2].split(",") if len(sys.argv) > 2 else []
answer = []
context = ncu_report.load_report(sys.argv[1])
for at in range(context.num_ranges()):
  part = context.range_by_idx(at)
  for number in range(part.num_actions()):
    action = part.action_by_idx(number)
    of = lambda name: action.metric_by_name(name)
    counts = of("inst_executed"); places = counts.correlation_ids()
    sectors = of("memory_l2_theoretical_sectors_global"); bytes_at = {}
    if sectors is not None and sectors.has_correlation_ids():
      ids = sectors.correlation_ids()
      bytes_at = {ids.as_uint64(i): sectors.as_uint64(i) for i in range(sectors.num_instances())}
    rows = sorted((places.as_uint64(i), counts.as_uint64(i)) for i in range(counts.num_instances()))
    first = rows[0][0]
    answer.append({
      "kernel": action.name(),
      "grid": [int(of(f"launch__grid_dim_{d}").as_uint64()) for d in "xyz"],
      "metrics": {name: (lambda m: None if m is None else m.as_double())(of(name)) for name in METRICS},
      "executed": [[pc - first, count, bytes_at.get(pc, 0), action.sass_by_pc(pc)] for pc, count in rows],
    })
json.dump(answer, sys.stdout)
