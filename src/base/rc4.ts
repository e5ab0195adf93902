/** RC4, which OpenSSL offers no more; NTLM hands over the session's key in it. */
export function rc4(key: Uint8Array, data: Uint8Array): Buffer {
  const box = Uint8Array.from({ length: 256 }, (_, index) => index);
  const at = (index: number) => box[index & 255] ?? 0;
  const swap = (i: number, j: number) => {
    const kept = at(i);
    box[i] = at(j);
    box[j] = kept;
  };
  for (let i = 0, j = 0; i < 256; i++) {
    j = (j + at(i) + (key[i % key.length] ?? 0)) & 255;
    swap(i, j);
  }
  const result = Buffer.allocUnsafe(data.length);
  for (let n = 0, i = 0, j = 0; n < data.length; n++) {
    i = (i + 1) & 255;
    j = (j + at(i)) & 255;
    swap(i, j);
    result[n] = (data[n] ?? 0) ^ at(at(i) + at(j));
  }
  return result;
}
