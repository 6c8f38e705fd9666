export function lengthComplaints(sources: ReadonlyMap<string, string>): string[];
