/** A gateway's metrics at one moment, by name; series of one name but different labels are added up. */
export class MetricsSnapshot {
  private constructor(private readonly values: ReadonlyMap<string, number>) {}

  /**
   * Reads `http://ADDRESS/metrics`.
   *
   * @param address `HOST:PORT` of the gateway's `--metrics-listen`
   * @throws Error when nobody answers there
   */
  static async read(address: string): Promise<MetricsSnapshot> {
    const response = await fetch(`http://${address}/metrics`);
    return MetricsSnapshot.parse(await response.text());
  }

  /** Parses the Prometheus text format. */
  static parse(text: string): MetricsSnapshot {
    const values = new Map<string, number>();
    for (const line of text.split('\n')) {
      const match = /^([a-z_]+)(?:\{[^}]*\})? (\S+)$/.exec(line);
      if (match) values.set(match[1] as string, (values.get(match[1] as string) ?? 0) + Number(match[2]));
    }
    return new MetricsSnapshot(values);
  }

  /** A metric, of ours without the prefix `rocmforge_`; 0 when there is none. */
  get(name: string): number {
    return this.values.get(`rocmforge_${name}`) ?? this.values.get(name) ?? 0;
  }
}
