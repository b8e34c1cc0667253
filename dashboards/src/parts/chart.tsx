// A chart by uPlot, with a table of the same numbers beside it for whoever cannot see it or wants to compute with them.
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { axisNumber } from '../format';
import 'uplot/dist/uPlot.min.css';
import { type Column, CsvButton, Table } from './table';

export interface Axis {
  label: string; // with the unit
  log?: boolean;
  time?: boolean; // milliseconds since 1970
  whole?: boolean; // there is nothing between two whole numbers
  show?: (value: number) => string; // under the cursor
  tick?: (value: number) => string; // beside the axis; as a number unless given
  range?: [number, number];
}

export interface Series {
  label: string;
  values: (number | null)[]; // one for each x
  kind: 'line' | 'step' | 'points';
  color: number; // of the palette in app.css
  dashed?: boolean;
  marks?: boolean; // points on a line
}

interface Props<Row> {
  title: string;
  note?: string;
  x: Axis;
  y: Axis;
  xs: number[]; // ascending
  series: Series[];
  /** The numbers as a table: the same ones, under their names. */
  rows: Row[];
  columns: Column<Row>[];
  rowKey: (row: Row) => string | number;
  height?: number;
  empty?: string;
}

export function Chart<Row>(props: Props<Row>) {
  const { title, note, rows, columns, rowKey } = props;
  const [asTable, setAsTable] = useState(false);
  return (
    <figure class="chart">
      <figcaption>
        <h3>{title}</h3>
        <span class="buttons">
          <button type="button" class="small" aria-pressed={asTable} aria-label={`Table: ${title}`} onClick={() => setAsTable(!asTable)}>
            Table
          </button>
          <CsvButton name={title} columns={columns} rows={rows} />
        </span>
      </figcaption>
      {asTable ? <Table name={title} columns={columns} rows={rows} rowKey={rowKey} /> : <Plot {...props} />}
      {note && <p class="note">{note}</p>}
    </figure>
  );
}

const kDark = window.matchMedia('(prefers-color-scheme: dark)');

/** uPlot draws on a canvas: its colours are read from the style sheet, again when the scheme changes. */
function Plot<Row>(props: Props<Row>) {
  const { title, x, y, xs, series, height = 260, empty = 'nothing measured yet' } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [dark, setDark] = useState(kDark.matches);
  const shape = JSON.stringify([title, x, y, series.map((one) => ({ ...one, values: 0 })), dark]);
  const data = [xs, ...series.map((one) => one.values)] as uPlot.AlignedData;
  const any = series.some((one) => one.values.some((value) => value !== null));

  useEffect(() => {
    const changed = () => setDark(kDark.matches);
    kDark.addEventListener('change', changed);
    return () => kDark.removeEventListener('change', changed);
  }, []);
  useEffect(() => {
    const box = place.current;
    if (!any || !box) return undefined;
    const made = new uPlot(optionsOf(x, y, series, box.clientWidth, height), data, box);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: box.clientWidth, height }));
    resized.observe(box);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, any]);
  useEffect(() => plot.current?.setData(data));
  if (!any) return <p class="empty">{empty}</p>;
  return <div class="plot" ref={place} role="img" aria-label={`${title}: ${y.label} over ${x.label}; the button “Table” has the numbers`} />;
}

const kWholeSteps = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
const kManyDecades = 3;

/** Of a logarithmic axis; over many decades the powers of ten alone. */
function gridOf(_: uPlot, splits: number[]): (number | null)[] {
  const decades = Math.log10(splits.at(-1)! / splits[0]);
  const isPower = (value: number) => Number.isInteger(Number(Math.log10(value).toFixed(6)));
  return decades <= kManyDecades ? splits : splits.map((value) => (isPower(value) ? value : null));
}

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function optionsOf(x: Axis, y: Axis, series: Series[], width: number, height: number): uPlot.Options {
  const font = '12px system-ui, sans-serif';
  const axis = (one: Axis, size: number): uPlot.Axis => ({
    label: one.label,
    labelFont: font,
    labelSize: 22,
    font,
    size,
    stroke: css('--dim'),
    grid: { stroke: css('--grid'), width: 1, ...(one.log ? { filter: gridOf } : {}) },
    ...(one.whole ? { incrs: kWholeSteps } : {}),
    ticks: { show: false },
    // uPlot leaves out ticks between the powers of ten as null.
    ...(one.time ? {} : { values: (_: uPlot, ticks: (number | null)[]) => ticks.map((tick) => (tick === null ? '' : (one.tick ?? axisNumber)(tick))) }),
  });
  const scale = (one: Axis): uPlot.Scale => ({
    time: one.time ?? false,
    distr: one.log ? 3 : 1,
    ...(one.range ? { range: () => one.range! } : {}),
  });
  const value = (one: Axis) => (_: uPlot, raw: number | null) => (raw === null ? '–' : (one.show?.(raw) ?? String(raw)));
  return {
    width,
    height,
    ms: 1,
    padding: [12, 16, 0, 0],
    cursor: { points: { size: 7 }, drag: { x: true, y: false } },
    legend: { live: true },
    scales: { x: scale(x), y: scale(y) },
    axes: [axis(x, x.time ? 46 : 28), axis(y, 60)],
    series: [
      { label: x.label, ...(x.time ? {} : { value: value(x) }) },
      ...series.map((one): uPlot.Series => {
        const color = css(`--series${one.color}`);
        const points = one.kind === 'points';
        return {
          label: one.label,
          stroke: color,
          width: 2,
          dash: one.dashed ? [6, 5] : undefined,
          paths: points ? () => null : one.kind === 'step' ? uPlot.paths.stepped!({ align: 1 }) : undefined,
          points: { show: points || one.marks === true, size: 6, fill: color, width: 0 },
          spanGaps: true,
          value: value(y),
        };
      }),
    ],
  };
}
