/** slots[index[i]] = value[i] for the first `count` pairs. */
export function slotWrite(slots: Int32Array, writes: Int32Array, count: number): Int32Array {
  const result = slots.slice();
  for (let i = 0; i < count; i++) result[writes[2 * i]!] = writes[2 * i + 1]!;
  return result;
}
