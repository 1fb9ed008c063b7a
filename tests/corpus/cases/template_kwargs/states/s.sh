echo {{ extra }} {{ extra2 }} > @TMP@/s
