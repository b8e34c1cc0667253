// A table that sorts by its heads and can be taken away as CSV.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { saveAs } from '../api';

type Cell = string | number | null | undefined;

export interface Column<Row> {
  head: string;
  /** What it is sorted by, and what CSV holds: a number without unit, which `csv` names. */
  value: (row: Row) => Cell;
  show?: (row: Row) => ComponentChildren;
  /** The column's name in CSV, with the unit. */
  csv?: string;
  text?: boolean; // to the left; numbers stand to the right
  hint?: string;
}

interface Props<Row> {
  name: string; // of the table, for who cannot see it; and of the file
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string | number;
  sortable?: boolean;
  empty?: string;
}

export function Table<Row>({ name, columns, rows, rowKey, sortable = true, empty = 'nothing yet' }: Props<Row>) {
  const [sort, setSort] = useState<{ column: number; down: boolean } | null>(null);
  const shown = sort ? sorted(rows, columns[sort.column].value, sort.down) : rows;
  const clicked = (column: number) =>
    setSort((old) => (old?.column === column ? { column, down: !old.down } : { column, down: !columns[column].text }));
  return (
    <div class="table" tabIndex={0} role="region" aria-label={name}>
      <table>
        <caption class="unseen">{name}</caption>
        <thead>
          <tr>
            {columns.map((column, i) => (
              <th
                scope="col"
                class={column.text ? 'text' : ''}
                title={column.hint}
                aria-sort={sort?.column === i ? (sort.down ? 'descending' : 'ascending') : undefined}
              >
                {sortable ? (
                  <button type="button" onClick={() => clicked(i)}>
                    {column.head}
                    <span class="arrow" aria-hidden="true">
                      {sort?.column === i ? (sort.down ? '↓' : '↑') : ''}
                    </span>
                  </button>
                ) : (
                  column.head
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((column) => (
                <td class={column.text ? 'text' : ''}>{column.show ? column.show(row) : (column.value(row) ?? '–')}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p class="empty">{empty}</p>}
    </div>
  );
}

export function CsvButton<Row>({ name, columns, rows }: { name: string; columns: Column<Row>[]; rows: Row[] }) {
  return (
    <button type="button" class="small" aria-label={`CSV: ${name}`} onClick={() => saveCsv(name, columns, rows)}>
      CSV
    </button>
  );
}

function saveCsv<Row>(name: string, columns: Column<Row>[], rows: Row[]): void {
  const lines = [columns.map((column) => quoted(column.csv ?? column.head))];
  for (const row of rows) lines.push(columns.map((column) => quoted(column.value(row))));
  const text = lines.map((line) => line.join(',') + '\r\n').join('');
  saveAs(new Blob([text], { type: 'text/csv' }), `${name.toLowerCase().replace(/[^a-z0-9]+/g, '-')}.csv`);
}

/** A text that a spreadsheet would take for a formula is kept from being one. */
function quoted(cell: Cell): string {
  if (cell === null || cell === undefined) return '';
  if (typeof cell === 'number') return String(cell);
  const text = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function sorted<Row>(rows: Row[], value: (row: Row) => Cell, down: boolean): Row[] {
  const sign = down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const x = value(a);
    const y = value(b);
    if (x === y) return 0;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return (x < y ? -1 : 1) * sign;
  });
}
