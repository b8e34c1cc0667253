// What the job has to say when it is done, as `tune` prints it.
import { useEffect, useState } from 'preact/hooks';
import { download, getText, type JobDetails } from '../api';
import { textOf } from '../live';
import { Failed } from '../parts/pieces';

export function Report({ job }: { job: JobDetails }) {
  const [text, setText] = useState('');
  const [error, setError] = useState('');
  const path = `/v1/jobs/${job.id}/report`;
  const done = job.state === 'done';
  useEffect(() => {
    if (!done) return;
    getText(path).then(setText, (failed) => setError(textOf(failed)));
  }, [path, done]);
  if (!done) return <p class="empty">The report is written when the job is done; this one is {job.state}.</p>;
  return (
    <>
      <div class="title">
        <h2>Report</h2>
        <button type="button" class="small" onClick={() => download(path, `${job.model}-report.txt`)}>
          Download
        </button>
      </div>
      <Failed text={error} />
      <pre tabIndex={0} aria-label="Report">
        {text}
      </pre>
    </>
  );
}
