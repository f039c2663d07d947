// The geometry of a window that slides over NHWC images, as the host writes it to linear memory.
#pragma once

typedef struct {
    int batch, height, width, channels;
    int out_height, out_width;
    int filter_height, filter_width;
    int stride_height, stride_width;
    int dilation_height, dilation_width;
    int pad_top, pad_left;
} window;
