// How well the cost model ranks: over the job's rounds, and its scores against what was measured.
import { useState } from 'preact/hooks';
import type { Columns, JobDetails } from '../api';
import { digits, latency, latencyUnit } from '../format';
import { to } from '../route';
import { Chart } from '../parts/chart';
import { Choice } from '../parts/pieces';
import type { Column } from '../parts/table';
import { type Point, taskChoices, usePoints } from './trials';

interface Round {
  trials: number;
  rank_correlation: number;
  recall: number;
  samples: number;
}

/** Each time the model was trained its quality was asked anew: one row for each change. */
function roundsOf(curve: Columns): Round[] {
  const column = (name: string) => curve.columns.indexOf(name);
  const [trials, correlation, recall, samples] = ['trials', 'rank_correlation', 'recall', 'samples'].map(column);
  const rounds: Round[] = [];
  for (const row of curve.points) {
    const round = { trials: row[trials]!, rank_correlation: row[correlation] ?? NaN, recall: row[recall] ?? NaN, samples: row[samples] ?? 0 };
    const last = rounds.at(-1);
    const changed = !last || last.rank_correlation !== round.rank_correlation || last.samples !== round.samples;
    if (round.samples > 0 && changed) rounds.push(round);
  }
  return rounds;
}

const kRoundColumns: Column<Round>[] = [
  { head: 'Trials', csv: 'trials', value: (round) => round.trials },
  { head: 'Rank correlation', csv: 'rank_correlation', value: (round) => round.rank_correlation, show: (round) => digits(round.rank_correlation) },
  { head: 'Recall', csv: 'recall', value: (round) => round.recall, show: (round) => digits(round.recall) },
  { head: 'Samples', csv: 'samples', value: (round) => round.samples },
];

export function CostModel({ job, curve }: { job: JobDetails; curve: Columns }) {
  const choices = taskChoices(job);
  const [chosen, setChosen] = useState('');
  const workload = chosen || choices[0]?.[0] || '';
  const rounds = roundsOf(curve);
  const { points: all } = usePoints(job, workload);
  const points = all.filter((point) => point.predicted !== 0).sort((a, b) => a.predicted - b.predicted);
  const [scale, unit] = latencyUnit(points[0]?.seconds ?? 1e-6);
  const pointColumns: Column<Point>[] = [
    { head: 'Trial', value: (point) => point.id, show: (point) => <a href={to('trials', point.id)}>{point.id}</a> },
    { head: 'Score', csv: 'predicted', value: (point) => point.predicted, show: (point) => digits(point.predicted) },
    { head: 'Latency', csv: 'seconds', value: (point) => point.seconds, show: (point) => latency(point.seconds) },
  ];
  return (
    <>
      <Chart
        title="Rank correlation by round"
        note="Spearman’s correlation of score and speed, and the share of the fastest candidates among those ranked first, on measurements that the model had not seen."
        x={{ label: 'trials', whole: true, show: (value) => String(value) }}
        y={{ label: 'correlation, recall', range: [-1, 1], show: (value) => value.toFixed(2) }}
        xs={rounds.map((round) => round.trials)}
        series={[
          { label: 'rank correlation', kind: 'line', color: 1, values: rounds.map((round) => round.rank_correlation) },
          { label: 'recall', kind: 'line', color: 2, values: rounds.map((round) => round.recall) },
        ]}
        rows={rounds}
        columns={kRoundColumns}
        rowKey={(round) => rounds.indexOf(round)}
        height={220}
      />
      <div class="title">
        <h2>By task</h2>
        <Choice label="Task" value={workload} onChange={setChosen} choices={choices} />
      </div>
      <Chart
        title="Predicted against measured"
        note="One point a trial that the model ranked. Scores have no unit: a good model’s points fall from left to right."
        x={{ label: 'score (higher: said to be faster)', show: (value) => digits(value) }}
        y={{ label: `latency (${unit})`, log: true, show: (value) => digits(value) }}
        xs={points.map((point) => point.predicted)}
        series={[{ label: 'measured', kind: 'points', color: 1, values: points.map((point) => point.seconds * scale) }]}
        rows={points}
        columns={pointColumns}
        rowKey={(point) => point.id}
      />
    </>
  );
}
