// Two texts line by line, side by side.

export interface DiffRow {
  left: string | null; // null: the other side has a line more here
  right: string | null;
  same: boolean;
}

const kMostCells = 4_000_000; // of the table of common subsequences: longer texts are shown without it

/** By the longest common subsequence of lines. */
export function diffLines(leftText: string, rightText: string): DiffRow[] {
  const left = leftText.trimEnd().split('\n');
  const right = rightText.trimEnd().split('\n');
  if (left.length * right.length > kMostCells) return pairs(left, right);
  const width = right.length + 1;
  const common = new Uint16Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; --i)
    for (let j = right.length - 1; j >= 0; --j)
      common[i * width + j] =
        left[i] === right[j]
          ? common[(i + 1) * width + j + 1] + 1
          : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
  const rows: DiffRow[] = [];
  let gone: string[] = [];
  let come: string[] = [];
  const flush = () => {
    rows.push(...pairs(gone, come));
    gone = [];
    come = [];
  };
  let i = 0;
  let j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      flush();
      rows.push({ left: left[i++], right: right[j++], same: true });
    } else if (j === right.length || (i < left.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      gone.push(left[i++]);
    } else {
      come.push(right[j++]);
    }
  }
  flush();
  return rows;
}

function pairs(left: string[], right: string[]): DiffRow[] {
  return Array.from({ length: Math.max(left.length, right.length) }, (_, i) => ({
    left: left[i] ?? null,
    right: right[i] ?? null,
    same: left[i] === right[i],
  }));
}
