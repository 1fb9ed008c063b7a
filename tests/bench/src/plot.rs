//! CPU times by the number of states in, a picture out: both axes are logarithmic, so that a straight line at 45° is linear.

use std::fmt::Write as _;

use crate::rounds::{Rounds, SCALED, SIZES};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
/// Pixels of a power of ten.
const STEP: f64 = 100.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 340.0;
const COLOURS: [&str; 4] = ["#b4431f", "#1f6fb4", "#2f8f4e", "#7a4fb5"];

fn x(states: usize) -> f64 {
    LEFT + ((states as f64).log10() - 2.0) * STEP
}

fn y(ms: f64) -> f64 {
    BOTTOM - ms.max(1.0).log10() * STEP * 0.8
}

pub fn draw(rounds: &Rounds) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<title>CPU time by the number of states</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    for states in SIZES {
        let x = x(states);
        let _ = writeln!(out, "<path d=\"M{x:.0} 20V{BOTTOM}\" stroke=\"#ddd\"/>");
        let _ = writeln!(
            out,
            "<text x=\"{x:.0}\" y=\"{}\" text-anchor=\"middle\">{states} states</text>",
            BOTTOM + 20.0
        );
    }
    for ms in [1.0, 10.0, 100.0, 1000.0, 10_000.0] {
        let y = y(ms);
        let _ = writeln!(out, "<path d=\"M{LEFT} {y:.0}H420\" stroke=\"#ddd\"/>");
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.0}\" text-anchor=\"end\">{ms} ms</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    for (number, (command, colour)) in SCALED.iter().zip(COLOURS).enumerate() {
        let points: Vec<String> = SIZES
            .iter()
            .filter_map(|states| {
                Some(format!("{:.0},{:.0}", x(*states), y(*rounds.scaling.get(&(*command, *states))?)))
            })
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
        let at = 40 + 22 * number;
        let _ = writeln!(out, "<path d=\"M450 {at}h24\" stroke=\"{colour}\" stroke-width=\"2\"/>");
        let _ = writeln!(out, "<text x=\"480\" y=\"{}\">{command}</text>", at + 4);
    }
    out.push_str("</svg>\n");
    out
}
